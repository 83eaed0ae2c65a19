# What stands between an engine and its GPUs, by version; a deep look only, for each of these takes its time to start:
# `program NAME`, what it says of itself, `exit CODE`. Nothing of a program that is not there.
section_versions() {
    local program wanted=("$runtime_program" nvidia-ctk) switches=(/proc/driver/nvidia-nvswitch/devices/*)
    ((${#switches[@]} == 0)) || wanted+=(nv-fabricmanager)
    for program in "${wanted[@]}"; do
        type -P "$program" >/dev/null || continue
        printf 'program %s\n' "${program##*/}"
        run "$program" --version
        printf '\nexit %d\n' "$?"
    done
    return 0
}
