# The other nodes of engines that several run: how each is called here, by which way it is reached, whether it answers.
# `peer NAME PORT`, then `resolved IP`, `route ...` as ip prints it, `answer ...`. Asked only where there are any.
section_span() {
    local at ip said answer fds=() pids=() ips=()
    for at in "${!peer_names[@]}"; do
        ip=${peer_addresses[at]}
        if [[ ! $ip =~ ^[0-9.]+$|: ]]; then
            said=$(exec getent ahosts -- "$ip" 2>&1)
            ip=${said%%[[:space:]]*}
        fi
        ips[at]=$ip
        # Nobody need listen there: to be refused is an answer too. One that never comes must not hold the probe.
        exec {answer}< <({ exec 3<>"/dev/tcp/$ip/${peer_ports[at]}"; } 2>&1 && printf 'accepted\n')
        fds[at]=$answer
        pids[at]=$!
    done
    for at in "${!peer_names[@]}"; do
        printf 'peer %s %s\n' "${peer_names[at]}" "${peer_ports[at]}"
        printf 'resolved %s\n' "${ips[at]}"
        [[ ! ${ips[at]} ]] || printf 'route %s\n' "$(exec ip -o route get "${ips[at]}" 2>&1)"
        said=
        IFS= read -r -t 3 -u "${fds[at]}" said || kill "${pids[at]}" 2>/dev/null
        exec {fds[at]}<&-
        printf 'answer %s\n' "${said:-none within 3 s}"
    done
    return 0
}
