# The tensors of each wanted checkpoint, from the headers of its safetensors files: `checkpoint PATH`, then a line a kind
# of tensor, `COUNT BYTES DTYPE LAYERS NAME` with # for the numbers in a name, then `files N` and `exit CODE`. Summed here:
# a large model names a quarter of a million tensors.
section_checkpoint() {
    local path
    for path in "${models[@]}"; do
        printf 'checkpoint %s\n' "$path"
        run checkpoint_tensors "$path"
        printf '\nexit %d\n' "$?"
    done
}

checkpoint_tensors() {
    local file size shard shards=() status
    declare -A total=()
    if [[ -f $1/model.safetensors.index.json ]]; then
        mapfile -t shards < <(awk "$name_shards" "$1/model.safetensors.index.json")
        shards=("${shards[@]/#/$1/}")
    else
        shards=("$1"/*.safetensors)
    fi
    if [[ ${#shards[@]} -eq 0 ]]; then
        printf 'no *.safetensors'
        return 2
    fi
    while read -r size file; do total[$file]=$size; done < <(stat -Lc '%s %n' -- "${shards[@]}" 2>/dev/null)
    for file in "${shards[@]}"; do
        if [[ ! -f $file ]]; then
            printf '!%s is missing}' "${file##*/}"
        elif ! { exec {shard}<"$file"; } 2>/dev/null || ! header_size "$shard" || ((size < 0 || size > 999999999)); then
            printf '!%s: the header is not that of safetensors}' "${file##*/}"
        elif ((total[$file] < 8 + size)); then
            printf '!%s: the header is cut off: want %d bytes, found %d}' "${file##*/}" "$size" "$((total[$file] - 8))"
        else
            printf '@%s|%d}' "${file##*/}" "$((total[$file] - 8 - size))"
            head -c "$size" <&"$shard"
            printf '}'
        fi
        [[ ! ${shard-} ]] || exec {shard}<&-
        shard=
    done | awk "$sum_tensors"
    status=("${PIPESTATUS[@]}")
    ((status[1] == 0)) || return "${status[1]}"
    printf 'files %d' "${#shards[@]}"
}

# Each file that the index names, once.
name_shards='
BEGIN { RS = "," }
match($0, /"[^"\/]+\.safetensors"/) {
    file = substr($0, RSTART + 1, RLENGTH - 2)
    if (!(file in seen)) print file
    seen[file] = 1
}'

# header_size DESCRIPTOR: the first 8 bytes of a file, a number with the lowest byte first, in `size`; false where there are
# not so many. What follows is the header. Without a process: a checkpoint may have hundreds of files.
header_size() {
    local part value at=0 byte want
    size=0
    while ((at < 8)); do
        want=$((8 - at))
        # Up to a byte that is 0, which is taken too; the shell cannot hold it.
        IFS= read -r -d '' -n "$want" -u "$1" part || [[ ${#part} == "$want" ]] || return 1
        for ((byte = 0; byte < ${#part}; byte++)); do
            printf -v value %d "'${part:byte:1}"
            ((size |= (value & 255) << 8 * at++))
        done
        ((${#part} == want)) || ((at++))
    done
    return 0
}

# Records end at }, so that one holds one tensor. What a file holds must reach as far as its header says.
sum_tensors='
function cut() {
    if (head[1] == "" || reach <= head[2] + 0) return 0
    trouble = head[1] sprintf(": the file is cut off: want %.0f bytes of tensors, found %s", reach, head[2])
    return 1
}
BEGIN { RS = "}" }
/^!/ { trouble = substr($0, 2); exit }
/^@/ { if (cut()) exit; split(substr($0, 2), head, "|"); reach = 0; next }
{ gsub(/[ \t\r\n]/, "") }
!match($0, /"data_offsets":\[[0-9]+,[0-9]+\]/) { next }
{
    split(substr($0, RSTART + 16, RLENGTH - 17), ends, ",")
    if (!match($0, /"dtype":"[A-Z0-9_]+"/)) { trouble = "a tensor without dtype"; exit }
    dtype = substr($0, RSTART + 9, RLENGTH - 10)
    if (!match($0, /"[^"]+":\{/)) { trouble = "a tensor without a name"; exit }
    name = substr($0, RSTART + 1, RLENGTH - 4)
    layer = "-"
    if (match(name, /(^|\.)(layers|h|blocks)\.[0-9]+\./)) {
        layer = substr(name, RSTART, RLENGTH - 1)
        sub(/.*\./, "", layer)
        layer += 0
        if (layer > 9999) { trouble = name ": want a layer below 10000"; exit }
        if (layer > last) last = layer
    }
    while (match(name, /\.[0-9]+\./)) name = substr(name, 1, RSTART) "#" substr(name, RSTART + RLENGTH - 1)
    if (ends[2] + 0 > reach) reach = ends[2] + 0
    counts[name " " dtype " " sprintf("%.0f", ends[2] - ends[1]) " " layer]++
}
END {
    if (trouble || cut()) { printf "%s", trouble; exit 3 }
    for (key in counts) {
        split(key, part, " ")
        same = counts[key] " " part[3] " " part[2] " " part[1]
        if (part[4] == "-") plain[same] = 1
        else { at[same, part[4]] = 1; kinds[same] = 1 }
    }
    for (same in plain) { split(same, part, " "); print part[1], part[2], part[3], "-", part[4] }
    for (same in kinds) {
        ranges = ""
        for (l = 0; l <= last; l++) {
            if (!((same, l) in at)) continue
            for (end = l; ((same, end + 1) in at); end++);
            ranges = ranges (ranges == "" ? "" : ",") (end > l ? l "-" end : l)
            l = end
        }
        split(same, part, " ")
        print part[1], part[2], part[3], ranges, part[4]
    }
}'
