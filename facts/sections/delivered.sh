# What was delivered and verified: `checkpoint PATH`, then `verified DIGEST` where the folder is to the byte count and the
# times of every file as it was when its content was compared with that manifest.
section_delivered() {
    local at digest
    for at in "${!checkpoint_paths[@]}"; do
        printf 'checkpoint %s\n' "${checkpoint_paths[at]}"
        verified_as "${checkpoint_paths[at]}" "${checkpoint_keys[at]}" && printf 'verified %s\n' "$digest"
    done
    return 0
}

# verified_as PATH KEY: sets `digest`; false where there is no record, or something in the folder was touched since.
verified_as() {
    local record=$state/.delivery/$2.verified
    digest=
    [[ -d $1 && -f $record ]] && IFS= read -r digest <"$record" || return 1
    { printf '%s\n' "$digest"; listing_of "$1"; } | cmp -s - "$record"
}

# listing_of PATH: kind, size, times and name of everything in the folder that is no folder, in one order.
listing_of() {
    find "$1/" -mindepth 1 ! -type d -printf '%y\t%s\t%T@\t%C@\t%P\n' 2>/dev/null | sort
}
