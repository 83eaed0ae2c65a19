# The kernel's NUMA nodes: `ID CPULIST` a line; a node without CPUs has an empty list.
section_numa() {
    local file line id
    for file in /sys/devices/system/node/node*/cpulist; do
        id=${file%/cpulist}
        if first_line "$file" || [[ -r $file ]]; then
            printf '%s %s\n' "${id##*/node}" "$line"
        else
            printf '%s unreadable\n' "${id##*/node}"
        fi
    done
}
