# The one command of a rollout: every section, in an order that lets the slow ones run beside the others.
probe() {
    prepare
    # What waits for hardware or a network file system runs behind a pipe: if it can never be ended (a lost GPU holds
    # nvidia-smi in the kernel), it does not hold the connection, and the frames that did arrive still count.
    exec {slow}< <(
        trap 'kill -KILL "$child"; exit' TERM
        frame gpus
        frame topology
        frame kernel
        [[ $deep ]] && frame nvlinks
        frame models
    )
    behind=$!
    frames host numa runtime services files units secrets ports disks
    run cat <&"$slow"
    [[ $expired ]] && kill "$behind" 2>/dev/null
    finish
}

# Some sections alone, for facts of their own.
some() {
    prepare
    frames "$@"
    finish
}

prepare() {
    declare -gA currents=()
    installed=()
    units=()
    watch
}

frames() {
    local section
    for section in "$@"; do
        frame "$section"
        [[ $section == services ]] && wanted_units
    done
}

# The units of the declared services and of those that lie on the node, each once.
wanted_units() {
    local name
    declare -A all=()
    for name in "${services[@]}" "${installed[@]}"; do all["vllm-$name.service"]=1; done
    units=("${!all[@]}")
}

finish() {
    kill "$watchdog" 2>/dev/null
    printf '\n==%s done\n' "$nonce"
}
