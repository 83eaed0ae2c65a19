# The NVLink ports of each GPU, without the UUIDs; a deep look only.
section_nvlinks() {
    local line code
    exec {answer}< <(exec nvidia-smi nvlink -s 2>&1)
    child=$!
    while IFS= read -r line || [[ $line ]]; do printf '%s\n' "${line%% (UUID: *}"; done <&"$answer"
    exec {answer}<&-
    wait "$child"
    code=$?
    ((code >= 0)) || { nvidia-smi nvlink -s >/dev/null 2>&1; code=$?; } # it ended before bash had noted it
    return "$code"
}
