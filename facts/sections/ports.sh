# Listening TCP ports as ss prints them, then `cgroup PID PATH` of each listening process, and with docker
# `container ID NAME` of each container.
section_ports() {
    local table code rest pid line seen=' '
    table=$(exec ss -Htnp state listening 2>&1) # -l would make the kernel walk all its sockets
    code=$?
    printf '%s\n' "${table//[$'\x80'-$'\xff']/?}"
    rest=$table
    while [[ $rest =~ pid=([0-9]+) ]]; do
        pid=${BASH_REMATCH[1]}
        rest=${rest#*"pid=$pid"}
        [[ $seen == *" $pid "* ]] && continue
        seen+="$pid "
        cgroup_of "$pid"
    done
    # Containers of docker are not in the cgroup of the unit that asked for them: their names tell whose they are.
    [[ $runtime == docker && $seen == *docker* ]] &&
        run "$runtime_program" ps --no-trunc --format 'container {{.ID}} {{.Names}}'
    return "$code"
}

# The cgroup that systemd put a process in: of the v1 hierarchy name=systemd where systemd uses that one, else of v2.
cgroup_of() {
    local line found=
    while IFS= read -r line; do
        case $line in
            *:name=systemd:/?*) found=${line#*:name=systemd:}; break ;;
            0::*) found=${line#0::} ;;
        esac
    done 2>/dev/null <"/proc/$1/cgroup"
    printf 'cgroup %s %s\n' "$1" "$found"
    seen+="$found "
}
