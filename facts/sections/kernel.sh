# The driver's errors since boot: lines of the kernel's log from `NVRM: Xid` on, and `cut` where the log no longer begins at
# the boot. A deep look asks the journal too, which forgets less.
section_kernel() {
    local codes
    hash nvidia-smi 2>/dev/null || return 0
    dmesg 2>&1 | since_boot
    codes=("${PIPESTATUS[@]}")
    ((codes[0] == 0)) || return "${codes[0]}"
    if [[ $deep ]] && hash journalctl 2>/dev/null; then
        journalctl --quiet --dmesg --boot --output=cat --grep='NVRM: Xid' --lines=500 2>/dev/null | xids
    fi
    return 0
}

# The first line says whether the log is whole; what dmesg says where it fails is passed on.
since_boot() {
    local first
    IFS= read -r first || [[ $first ]] || return
    case $first in
        '[    0.0'*) ;;
        dmesg:*) printf '%s\n' "$first" ;;
        *) printf 'cut\n' && [[ $first == *'NVRM: Xid ('* ]] && printf '%s\n' "${first//[$'\x80'-$'\xff']/?}" ;;
    esac
    xids
}

# Up to the first byte that is no ASCII: a process may have any name.
xids() { exec grep -a -o -m 500 'NVRM: Xid ([ -~]*'; }
