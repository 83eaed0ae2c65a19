# What a bootstrap must know: the system by its os-release, packages, programs, units, the driver and what belongs to it, and
# the files that are to be managed. One `word value` a line.
section_bare() {
    local line name path
    while IFS= read -r line; do
        case $line in
        ID=* | VERSION_ID=*)
            name=${line%%=*} line=${line#*=}
            printf 'os %s %s\n' "$name" "${line//[\"\']/}"
            ;;
        esac
    done 2>/dev/null </etc/os-release
    [[ -d /run/systemd/system ]] && printf 'systemd yes\n'
    type -P dpkg-query apt-get >/dev/null && bare_packages
    for name in podman docker nvidia-smi nvidia-ctk nv-fabricmanager rsync curl; do
        type -P "$name" >/dev/null && printf 'program %s\n' "$name"
    done
    type -P podman >/dev/null && printf 'podman %s\n' "$(run podman --version 2>/dev/null)"
    bare_archives
    bare_units
    bare_driver
    for name in "${sysctls[@]}"; do
        path=/proc/sys/${name//./\/}
        first_line "$path" && printf 'sysctl %s %s\n' "$name" "${line//$'\t'/ }"
    done
    bare_later
    first_line /proc/meminfo && printf 'memory %s\n' "$line"
    for name in "${users[@]}"; do
        line=$(id -gn -- "$name" 2>/dev/null) && printf 'user %s %s\n' "$name" "$line"
    done
    for path in "${managed[@]}"; do
        stuck_at "$path"
        [[ -e $path || -L $path ]] || continue
        if [[ -L $path && -d $path ]]; then
            printf 'entry %s_directory_by_link %s\n' "$(stat -L -c '%a_%U:%G' -- "$path")" "$path"
            continue
        fi
        printf 'entry %s\n' "$(stat -c '%a %U:%G %F' -- "$path" | tr ' ' '_') $path"
        [[ ! -f $path ]] || printf 'content %s\n' "$(sha256sum -- "$path")"
    done
    [[ -e /run/reboot-required || -e /var/run/reboot-required ]] && printf 'reboot a package asked for it (/run/reboot-required)\n'
    return 0
}

# What is read at boot after our own file: by the names of the files, whichever folder they lie in (sysctl.d(5)).
bare_later() {
    local file line
    local -A last=()
    [[ ${sysctls[0]-} ]] || return 0
    for file in {/usr/lib,/usr/local/lib,/run,/etc}/sysctl.d/*.conf; do
        [[ ${file##*/} > 90-vllm-fleet.conf ]] && last["${file##*/}"]=$file
    done
    for file in "${last[@]}"; do
        [[ -f $file ]] || continue
        while IFS= read -r line || [[ $line ]]; do
            line=${line//$'\t'/ }
            [[ $line != *([[:blank:]])[#\;]* && $line == *=* ]] && printf 'later %s\t%s\t%s\n' "$file" "${line%%=*}" "${line#*=}"
        done <"$file"
    done
}

# Every archive that apt knows, but for those that a bootstrap declared, and who works with packages at the moment.
bare_archives() {
    local file name words
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
        [[ -f $file && $file != /etc/apt/sources.list.d/vllm-fleet-* ]] || continue
        printf 'archives %s %s\n' "$(base64 -w0 -- "$file" 2>/dev/null)" "$file"
    done
    for file in /proc/[0-9]*/comm; do
        { IFS= read -r name <"$file"; } 2>/dev/null || continue
        case $name in
        apt | apt-get | aptitude | dpkg | unattended-upgr*)
            words=()
            { mapfile -d '' -t words <"${file%comm}cmdline"; } 2>/dev/null
            # This one runs all the time and only waits for the machine's shutdown.
            [[ ${words[*]-} == *unattended-upgrade-shutdown* ]] || printf 'packaging %s\n' "$name"
            ;;
        esac
    done
}

bare_packages() {
    printf 'architecture %s\n' "$(run dpkg --print-architecture 2>/dev/null)"
    run dpkg-query -W -f 'package ${db:Status-Abbrev}|${Package}|${Version}\n' 2>/dev/null | grep '^package .i'
    run apt-mark showhold 2>/dev/null | sed 's/^/held /'
}

bare_units() {
    run systemctl list-units --all --plain --no-legend --type=service 2>/dev/null | while read -r unit _ state _; do
        case $unit in
        chrony* | ntp* | openntpd* | systemd-timesyncd.service | nvidia-* | docker.service | containerd.service | vllm-fleet-*)
            printf 'unit %s %s\n' "$unit" "$state"
            ;;
        esac
    done
    run systemctl list-unit-files --plain --no-legend --type=service 2>/dev/null | while read -r unit state _; do
        case $unit in
        chrony* | ntp* | openntpd* | systemd-timesyncd.service | nvidia-* | docker.service | vllm-fleet-*)
            printf 'unitfile %s %s\n' "$unit" "$state"
            ;;
        esac
    done
}

# What has CUDA's device open, also where nvidia-smi does not answer: an engine outlives an upgrade of the driver's library.
bare_cuda() {
    local fd pid name seen=
    [[ -c /dev/nvidia-uvm ]] || return 0
    for fd in $(find /proc/[0-9]*/fd -lname /dev/nvidia-uvm 2>/dev/null); do
        pid=${fd#/proc/} pid=${pid%%/*}
        [[ $seen != *" $pid "* ]] && { IFS= read -r name <"/proc/$pid/comm"; } 2>/dev/null || continue
        seen+=" $pid "
        [[ $name == nvidia-persiste* ]] || printf 'cudaapp %s, %s\n' "$pid" "$name"
    done
}

# The driver as nvidia-smi tells it, the module that runs and the one on disk: where they differ a reboot is due.
bare_driver() {
    local file vendor class loaded= disk= device major minor
    first_line /sys/module/nvidia/version && loaded=$line && printf 'module %s\n' "$line"
    disk=$(run modinfo -F version nvidia 2>/dev/null) && [[ $disk ]] && printf 'disk %s\n' "$disk"
    if type -P nvidia-smi >/dev/null; then
        run nvidia-smi --query-gpu=driver_version,persistence_mode --format=csv,noheader 2>&1 | sed 's/^/smi /'
        run nvidia-smi --query-compute-apps=gpu_bus_id,pid,process_name,used_memory --format=csv,noheader,nounits 2>/dev/null \
            | sed -n 's/^[0-9A-Fa-f:.]*, \([0-9]\+, [^,]*\),.*/gpuapp \1/p'
    fi
    bare_cuda
    for file in /etc/cdi/nvidia.yaml /etc/cdi/nvidia.json /var/run/cdi/nvidia.yaml /run/cdi/nvidia.yaml; do
        [[ -f $file ]] || continue
        printf 'cdi %s %s\n' "$file" "$(grep -oaE '(libcuda\.so\.|driver-version: *"?)[0-9]+\.[0-9.]+' -- "$file" | head -n 1 | grep -oE '[0-9]+\.[0-9.]+$')"
        break
    done
    for file in /sys/bus/pci/devices/*/vendor; do
        first_line "$file" && vendor=$line && first_line "${file%vendor}class" && class=$line || continue
        [[ $vendor == 0x10de && $class == 0x0680* ]] && printf 'nvswitch %s\n' "${file%/vendor}"
    done
    for device in /dev/nvidia[0-9]* /dev/nvidiactl /dev/nvidia-uvm; do
        [[ -c $device ]] || continue
        read -r major minor < <(stat -c '%t %T' -- "$device")
        [[ -e /dev/char/$((16#$major)):$((16#$minor)) ]] || printf 'nochar %s\n' "$device"
    done
    [[ -f /etc/docker/daemon.json ]] && grep -q '"nvidia"' /etc/docker/daemon.json && printf 'dockernvidia yes\n'
    return 0
}
