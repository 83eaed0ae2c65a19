# The NVLink ports of each GPU, without the UUIDs; a deep look only.
section_nvlinks() {
    local line
    exec {answer}< <(exec nvidia-smi nvlink -s 2>&1)
    child=$!
    while IFS= read -r line || [[ $line ]]; do printf '%s\n' "${line%% (UUID: *}"; done <&"$answer"
    exec {answer}<&-
    wait "$child"
}
