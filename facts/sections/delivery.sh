# What a delivery must know of each wanted checkpoint besides: what lies at its place and beside it, and the room there.
section_delivery() {
    local at path tool digest
    for tool in rsync curl sha256sum podman docker; do
        type -P "$tool" >/dev/null && printf 'tool %s\n' "$tool"
    done
    [[ ! -f $state/.delivery/lease ]] || printf 'lease %s\n' "$(<"$state/.delivery/lease")"
    for at in "${!checkpoint_paths[@]}"; do
        path=${checkpoint_paths[at]}
        printf 'checkpoint %s\n' "$path"
        printf 'kind %s\n' "$(place_kind "$path")"
        stuck_at "$path"
        place_room "${path%/*}"
        printf 'disk %s\n' "$(stat -c %d -- "$(place_nearest "${path%/*}")")"
        if ! verified_as "$path" "${checkpoint_keys[at]}" || [[ $digest != "${checkpoint_digests[at]}" ]]; then
            place_sizes there "$path"
            place_sizes staged "$(place_staging "$path" "${checkpoint_digests[at]}")/files"
            place_sizes part "$(place_staging "$path" "${checkpoint_digests[at]}")/parts"
        fi
        find "${path%/*}" -mindepth 1 -maxdepth 1 -name ".${path##*/}.*" -type d -printf 'beside %f\n' 2>/dev/null
    done
    return 0
}

# place_staging PATH DIGEST: the folder beside it where that content is gathered.
place_staging() {
    printf '%s/.%s.%s.delivery' "${1%/*}" "${1##*/}" "${2:7:12}"
}

place_kind() {
    if [[ -L $1 ]]; then
        printf symlink
    elif [[ ! -e $1 ]]; then
        printf absent
    elif [[ ! -d $1 ]]; then
        printf other
    elif [[ $(stat -c %d -- "$1") == "$(stat -c %d -- "${1%/*}/")" ]] && ! mountpoint -q -- "$1"; then
        printf folder
    else
        printf mount
    fi
}

# place_nearest PATH: it, or the nearest folder around it that exists.
place_nearest() {
    local at=$1
    while [[ $at && ! -d $at ]]; do at=${at%/*}; done
    printf '%s' "${at:-/}"
}

# place_room PATH: of its nearest folder that exists.
place_room() {
    df --block-size=1 --output=avail,size -- "$(place_nearest "$1")" 2>&1 | tail -n 1 | { read -r free total && printf 'room %s %s\n' "$free" "$total"; }
}

place_sizes() {
    [[ ! -d $2 ]] || find "$2/" -mindepth 1 ! -type d -printf "$1 %y %s %P\n"
}
