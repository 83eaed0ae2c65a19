# The container runtime, and for each wanted image whether it is there.
#
# Starting podman costs more than all the rest of the probe, so its image store is read first, as containers/storage
# writes it: an image whose record has the wanted digest and name is there. Where that does not tell, podman is asked.
section_runtime() {
    local reference
    if [[ ! -x $runtime_program ]]; then
        printf 'missing %s\n' "$runtime_program"
        return 0
    fi
    find_storage
    [[ $runtime == podman ]] && read_stores
    for reference in "${images[@]}"; do
        printf 'image %s\n' "$reference"
        if [[ $runtime == podman ]] && image_in_stores "$reference"; then
            continue
        fi
        if [[ $runtime == podman ]] && surely_absent "${reference##*@}"; then
            printf 'no such image: no store has it, and podman was never used here\nexit 1\n'
            continue
        fi
        run "$runtime_program" image inspect --format "$image_format" -- "$reference"
        printf 'exit %d\n' "$?"
    done
}

# Digests, labels, and of the environment only CUDA_VERSION.
image_format='{{json .RepoDigests}} {{json .Config.Labels}} {{range .Config.Env}}{{if gt (len .) 13}}'
image_format+='{{if eq (slice . 0 13) "CUDA_VERSION="}}{{json .}}{{end}}{{end}}{{end}}'

# What the stores hold: `listed DIGEST NAMES` of each image; the text of each images.json in `listings`, its folder
# in `folders`.
read_stores() {
    local store file text rest record
    listings=()
    folders=()
    for store in "${stores[@]}"; do
        for file in "$store"/*-images/images.json; do
            text=
            IFS= read -r -d '' text <"$file"
            listings+=("$text")
            folders+=("${file%/images.json}")
            rest=$text
            while [[ $rest == *'{"id":"'* ]]; do
                rest=${rest#*'{"id":"'}
                record=${rest%%'{"id":"'*}
                [[ $record =~ ^[0-9a-f]{64}\",\"digest\":\"([^\"]*)\",\"names\":\[([^]]*)\] ]] &&
                    printf 'listed %s %s\n' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
            done
        done
    done
}

# image_in_stores NAME@DIGEST: prints `stored ENGINE` where a record has this digest under this name; false otherwise.
image_in_stores() {
    local name=${1%@*} digest=${1##*@} at before id record engine
    for at in "${!listings[@]}"; do
        before=${listings[at]%%"$digest\""*}
        [[ $before != "${listings[at]}" && $before == *'{"id":"'* ]] || continue
        id=${before##*'{"id":"'}
        id=${id:0:64}
        record=${listings[at]#*"{\"id\":\"$id\""}
        record=${record%%'{"id":"'*}
        has_name "$name" "$record" || continue
        engine_label "${folders[at]}/$id"
        printf 'stored %s\n%s' "$engine" "${cuda:+cuda $cuda$'\n'}"
        return 0
    done
    return 1
}

# surely_absent DIGEST: podman lays out its storage at its first call, whatever it is asked, and a look changes nothing. So
# it is not asked where it was never used, unless a further store mentions the digest in another place than expected.
surely_absent() {
    local text
    [[ -e $storage/db.sql || -e $storage/libpod ]] && return 1
    for text in "${listings[@]}"; do
        [[ $text == *"$1"* ]] && return 1
    done
    return 0
}

# has_name NAME RECORD: does the record carry the name, whatever tag or digest stands behind it?
has_name() {
    local names one
    [[ $2 =~ \"names\":\[([^]]*)\] ]] || return 1
    IFS=, read -r -a names <<<"${BASH_REMATCH[1]}"
    for one in "${names[@]}"; do
        one=${one//\"/}
        one=${one%@*}
        [[ ${one##*/} == *:* ]] && one=${one%:*}
        [[ $one == "$1" || $one == */"$1" ]] && return 0
    done
    return 1
}

# engine_label FOLDER: label and CUDA version in the image's own configuration, in `engine` and `cuda`; empty for none.
engine_label() {
    local file text
    engine='' cuda=''
    for file in "$1"/=*; do
        text=
        IFS= read -r -N 1048576 text <"$file"
        [[ $text =~ \"CUDA_VERSION=([0-9]+(\.[0-9]+)*)\" ]] && cuda=${BASH_REMATCH[1]}
        if [[ $text =~ \"Labels\":\{[^}]*\"org.vllm-fleet.engine\":\"([^\"]*)\" ]]; then
            engine=${BASH_REMATCH[1]}
            return
        fi
    done
}
