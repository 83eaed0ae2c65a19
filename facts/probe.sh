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
        if [[ $deep ]]; then
            frame nvlinks
            frame peers
            frame versions
        fi
        frame mounts
        frame models
        frame checkpoint
        ((${#checkpoint_paths[@]} == 0)) || frame delivered
        ((${#names[@]} == 0)) || frame names
        ((${#peer_names[@]} == 0)) || frame span
    )
    behind=$!
    frames host system numa cdi runtime services files units secrets ports disks
    [[ $audit ]] && begin_audit
    run cat <&"$slow"
    [[ ! $audit ]] || run cat <&"$running"
    [[ $expired ]] && kill "$behind" $watching 2>/dev/null
    finish
}

# What runs, behind a pipe too: an engine that hangs may never answer. By now it is known what lies on the node.
begin_audit() {
    exec {running}< <(
        trap 'kill -KILL "$child"; exit' TERM
        frame engines
        frame reports &
        child=$!
        wait "$child"
    )
    watching=$!
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
    watching=
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
    [[ $audit ]] && for name in "${installed[@]}"; do all["vllm-fleet-undo@$name.timer"]=1; done
    [[ $audit && ${installed[*]} ]] && all[vllm-fleet-boot.service]=1
    units=("${!all[@]}")
}

finish() {
    kill "$watchdog" 2>/dev/null
    printf '\n==%s done\n' "$nonce"
}
