# Folders and files of the node that containers shall see: `there PATH` or `absent PATH`.
section_mounts() {
    local path
    for path in "${mounts[@]}"; do
        if [[ -e $path ]]; then printf 'there %s\n' "$path"; else printf 'absent %s\n' "$path"; fi
    done
}
