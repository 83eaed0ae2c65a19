# Names of other machines that the node is sent to: `yes NAME` where it resolves, `no NAME` where it does not. /etc/hosts is
# read first; a resolver that hangs is ended with the rest of the probe.
section_names() {
    local name
    for name in "${names[@]}"; do
        if in_hosts "$name" || run getent ahosts -- "$name" >/dev/null 2>&1; then
            printf 'yes %s\n' "$name"
        elif [[ ! $expired ]]; then
            printf 'no %s\n' "$name"
        fi
    done
    return 0
}

# in_hosts NAME: does /etc/hosts know it?
in_hosts() {
    local line words word
    while read -r line || [[ $line ]]; do
        read -r -a words <<<"${line%%#*}"
        for word in "${words[@]:1}"; do
            [[ $word == "$1" ]] && return
        done
    done 2>/dev/null </etc/hosts
    return 1
}
