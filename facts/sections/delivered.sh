# What was delivered and verified: `checkpoint PATH`, then `verified DIGEST` where the folder is to the byte count and the
# times of every file as it was when its content was compared with that manifest. Where it is not: `held BYTES` that lie
# there and in the folder where it is gathered, and `room FREE TOTAL` beside it.
section_delivered() {
    local at digest
    for at in "${!checkpoint_paths[@]}"; do
        printf 'checkpoint %s\n' "${checkpoint_paths[at]}"
        if verified_as "${checkpoint_paths[at]}" "${checkpoint_keys[at]}"; then
            printf 'verified %s\n' "$digest"
        else
            held_bytes "${checkpoint_paths[at]}" "$(place_staging "${checkpoint_paths[at]}" "${checkpoint_digests[at]}")"
            place_room "${checkpoint_paths[at]%/*}"
        fi
    done
    return 0
}

held_bytes() {
    local size sum=0
    while read -r size; do ((sum += size)); done < <(find "$1/" "$2/" -type f -printf '%s\n' 2>/dev/null)
    printf 'held %d\n' "$sum"
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
