# Where the container runtime keeps its images: sets `storage` to its root, and `stores` to that and podman's further ones.
find_storage() {
    local line list=
    storage=/var/lib/containers/storage
    stores=()
    if [[ $runtime == docker ]]; then
        storage=/var/lib/docker
        if IFS= read -r -d '' line </etc/docker/daemon.json || [[ $line ]]; then
            [[ $line =~ \"data-root\"[[:space:]]*:[[:space:]]*\"([^\"]+)\" ]] && storage=${BASH_REMATCH[1]}
        fi 2>/dev/null
        return
    fi
    while IFS= read -r line || [[ $line ]]; do
        line=${line%%#*}
        if [[ $line =~ ^[[:space:]]*graphroot[[:space:]]*=[[:space:]]*\"([^\"]+)\" ]]; then
            storage=${BASH_REMATCH[1]}
        fi
        [[ $line =~ ^[[:space:]]*additionalimagestores[[:space:]]*= ]] && list=open
        if [[ $list ]]; then
            while [[ $line =~ \"([^\"]+)\" ]]; do
                stores+=("${BASH_REMATCH[1]}")
                line=${line#*"${BASH_REMATCH[0]}"}
            done
            [[ $line == *']'* ]] && list=
        fi
    done 2>/dev/null <"$storage_conf"
    stores=("$storage" "${stores[@]}")
}
