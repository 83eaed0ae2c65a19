# Our services as they lie on the node, one word and its value a line. Formats: docs of the node's state folder.
section_services() {
    local folder name
    if [[ ! -d $state ]]; then
        printf 'none %s\n' "$state"
        return 0
    fi
    if [[ ! -r $state || ! -x $state ]]; then
        printf 'cannot read %s\n' "$state"
        return 1
    fi
    for folder in "$state"/*/; do
        folder=${folder%/}
        name=${folder##*/}
        [[ $name =~ ^[a-z][a-z0-9-]{0,40}$ ]] || continue
        installed+=("$name")
        service_lines "$name" "$folder"
    done
    return 0
}

service_lines() {
    local release id current= line mark
    printf 'service %s\n' "$1"
    for release in "$2"/releases/*/; do
        release=${release%/}
        id=${release##*/}
        [[ $id =~ ^[0-9a-f]{16}$ ]] || continue
        [[ -f $release/plan.json ]] && printf 'release %s\n' "$id"
        [[ $2/current -ef $release ]] && current=$id
    done
    if [[ $current ]]; then
        printf 'current %s\n' "$current"
        currents[$1]=$current
    elif [[ -L $2/current || -e $2/current ]]; then
        printf 'current no release of this service\n'
    fi
    for mark in proven previous pending started; do
        if first_line "$2/$mark"; then
            printf '%s %s\n' "$mark" "${line//[$'\x80'-$'\xff']/?}"
        elif [[ -e $2/$mark ]]; then
            printf '%s \n' "$mark"
        fi
    done
    while IFS= read -r line; do
        [[ $line =~ ^([0-9a-f]{64})\ .(/[A-Za-z0-9@._/+-]+)$ ]] && printf 'mounted %s\n' "${BASH_REMATCH[1]} ${BASH_REMATCH[2]}"
    done 2>/dev/null <"$2/mounted"
}
