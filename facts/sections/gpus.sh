# The GPUs, one CSV row each. An older driver that does not know a field is asked again without it, after a line `fields
# A,B,...`. Where memory of a GPU is in use, `process BUS, PID, NAME, MIB` and `cgroup PID PATH` of each process on a GPU.
section_gpus() {
    local rows code
    exec {answer}< <(exec nvidia-smi "--query-gpu=$gpu_fields" --format=csv,noheader,nounits 2>&1)
    child=$!
    IFS= read -r -N 1048576 rows <&"$answer" # in pieces; line by line the shell reads a pipe byte by byte
    exec {answer}<&-
    wait "$child"
    code=$?
    if ((code < 0)); then # it ended before bash had noted it, and how is not known
        rows=$(exec nvidia-smi "--query-gpu=$gpu_fields" --format=csv,noheader,nounits 2>&1)
        code=$?
    fi
    [[ ! $rows ]] || printf '%s\n' "${rows%$'\n'}"
    if [[ $code == 2 && $rows == *'not a valid field to query'* ]]; then
        ask_again "$rows"
        code=$?
    fi
    some_busy "$rows" && gpu_processes
    return "$code"
}

# some_busy ROWS: is more memory of a GPU in use than the driver takes? It is the fifth field.
some_busy() {
    local rest=$1$'\n' row
    while [[ $rest == *$'\n'* ]]; do
        row=${rest%%$'\n'*}
        rest=${rest#*$'\n'}
        [[ $row =~ ^([^,]*,){4}\ *([0-9]+)\ *, ]] && ((10#${BASH_REMATCH[2]} > busy_mib)) && return 0
    done
    return 1
}

# ask_again ANSWER: without each field that nvidia-smi refuses, or under the name that it had before.
ask_again() {
    local rows=$1 fields=$gpu_fields asked=$gpu_fields code=2 tries name
    for ((tries = 0; tries < 16; tries++)); do
        [[ $code == 2 && $rows =~ Field\ \"([A-Za-z_.]+)\"\ is\ not\ a\ valid ]] || break
        name=${BASH_REMATCH[1]}
        if [[ $name == clocks_event_reasons.active ]]; then
            asked=${asked/$name/clocks_throttle_reasons.active}
        elif [[ $name == driver_version ]]; then
            asked=${asked/$name/kmd_version} # as drivers from 595 on also call it
        else
            [[ $name == clocks_throttle_reasons.active ]] && fields=${fields/,clocks_event_reasons.active/}
            fields=${fields/,$name/}
            asked=${asked/,$name/}
        fi
        rows=$(exec nvidia-smi "--query-gpu=$asked" --format=csv,noheader,nounits 2>&1)
        code=$?
    done
    printf 'fields %s\n%s\n' "$fields" "$rows"
    return "$code"
}

gpu_processes() {
    local answer line pid code seen=' '
    answer=$(exec nvidia-smi --query-compute-apps=gpu_bus_id,pid,process_name,used_memory --format=csv,noheader,nounits 2>&1)
    code=$?
    if ((code)); then
        printf 'processes exit %d: %s\n' "$code" "${answer//$'\n'/ }"
        return
    fi
    while IFS= read -r line; do
        [[ $line ]] || continue
        printf 'process %s\n' "$line"
        pid=${line#*, }
        cgroup_of "${pid%%,*}"
    done <<<"${answer//[$'\x80'-$'\xff']/?}"
}
