# config.json of each wanted checkpoint: `model PATH`, then base64 or the reason why there is none, then `exit CODE`. Of a
# model with sparse attention then also `tensors`, the names of its indexers' tensors, and `exit CODE` of looking for them.
section_models() {
    local path config
    for path in "${models[@]}"; do
        printf 'model %s\n' "$path"
        run base64 -w0 -- "$path/config.json"
        printf '\nexit %d\n' "$?"
        config=
        [[ ! -f $path/config.json || $expired ]] || IFS= read -r -N 1048576 config <"$path/config.json"
        [[ $config == *'"index_topk"'* ]] || continue
        printf 'tensors\n'
        indexer_tensors "$path"
        printf '\nexit %d\n' "$?"
    done
}

# From the index of the shards, or the header of the only file: 1 where there is no such tensor, as grep says it.
indexer_tensors() {
    if [[ -f $1/model.safetensors.index.json ]]; then
        run grep -aoE "$indexer_name" -- "$1/model.safetensors.index.json"
    elif [[ -f $1/model.safetensors ]]; then
        run header_names "$1/model.safetensors"
    else
        printf 'no model.safetensors.index.json and no model.safetensors'
        return 2
    fi
}

indexer_name='"[A-Za-z0-9_.]*layers\.[0-9]+\.self_attn\.indexer\.[A-Za-z0-9_.]+"'

# header_names FILE: its first 8 bytes are the length of the JSON that follows.
header_names() {
    local size
    size=$(od -An -t u8 -N 8 -- "$1") && size=${size//[[:space:]]/}
    if [[ ! $size =~ ^[0-9]{1,9}$ ]]; then
        printf 'the header of %s is not that of safetensors' "$1"
        return 2
    fi
    tail -c +9 -- "$1" | head -c "$size" | grep -aoE "$indexer_name"
}
