# Room of the file systems that hold our state and the container runtime's storage: `path WANTED` and `folder NEAREST`
# lines (the nearest folder that exists), then of each folder: block size, blocks, blocks free for us, folder.
section_disks() {
    local path folder folders=()
    find_storage
    for path in "$state" "$storage"; do
        folder=$path
        while [[ $folder && ! -d $folder ]]; do folder=${folder%/*}; done
        folders+=("${folder:-/}")
        printf 'path %s\nfolder %s\n' "$path" "${folder:-/}"
    done
    run stat -f -c '%S %b %a %n' -- "${folders[@]}"
}
