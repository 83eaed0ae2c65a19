# What machine this is. Files of the kernel and builtins only: no process is started.
section_host() {
    local line word now
    printf -v now '%(%s)T' -1
    printf 'now=%s\n' "$now"
    first_line /proc/sys/kernel/hostname && printf 'hostname=%s\n' "$line"
    first_line /proc/sys/kernel/random/boot_id && printf 'boot_id=%s\n' "$line"
    first_line /proc/sys/kernel/osrelease && printf 'kernel=%s\n' "$line"
    first_line /sys/devices/system/cpu/online && printf 'cpus_online=%s\n' "$line"
    while IFS= read -r line; do
        [[ $line == PRETTY_NAME=* ]] || continue
        word=${line#PRETTY_NAME=}
        printf 'os=%s\n' "${word//[$'\x80'-$'\xff']/?}"
    done </etc/os-release
    while read -r word line; do
        [[ $word == MemTotal: ]] || continue
        printf 'memory_kib=%s\n' "${line%% *}"
        break
    done </proc/meminfo
    if first_line "$state/lock"; then
        printf 'lock=%s\n' "${line//[$'\x80'-$'\xff']/?}"
    elif [[ -e $state/lock ]]; then
        printf 'lock=\n'
    fi
    return 0
}
