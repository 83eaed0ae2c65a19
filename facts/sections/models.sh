# config.json of each wanted checkpoint: `model PATH`, then base64 or the reason why there is none.
section_models() {
    local path
    for path in "${models[@]}"; do
        printf 'model %s\n' "$path"
        run base64 -w0 -- "$path/config.json"
        printf '\nexit %d\n' "$?"
    done
}
