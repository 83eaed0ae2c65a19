# What of the machine may break a start: limits, CPUs, memory, clock, devices, pending reboots and updates. Files of the
# kernel and builtins only: no process is started. One `word value` a line; a word may come more than once.
section_system() {
    local line rest
    local -a lines
    first_line /run/systemd/container && printf 'container %s\n' "$line"
    first_line /proc/sys/fs/nr_open && printf 'nr_open %s\n' "$line"
    # In one piece: `read` goes back to the end of each line, and the kernel then writes a text of other lengths.
    mapfile -t lines 2>/dev/null </proc/1/limits
    for line in "${lines[@]}"; do
        case $line in
            'Max open files'* | 'Max locked memory'*) printf 'limit %s\n' "${line%"${line##*[! ]}"}" ;;
        esac
    done
    mapfile -t lines 2>/dev/null </proc/1/status
    for line in "${lines[@]}"; do
        case $line in
            CapEff:*) printf 'capabilities %s\n' "${line#*$'\t'}" ;;
            Cpus_allowed_list:*) printf 'cpus_allowed %s\n' "${line#*$'\t'}" ;;
        esac
    done
    mapfile -t lines 2>/dev/null </proc/meminfo
    for line in "${lines[@]}"; do
        case $line in
            MemAvailable:* | HugePages_Total:* | HugePages_Free:* | Hugepagesize:*)
                rest=${line#*:}
                printf 'memory %s: %s\n' "${line%%:*}" "${rest#"${rest%%[! ]*}"}"
                ;;
        esac
    done
    governors
    clock_marks
    names_of_host
    pending_reboot
    armed_updates
    labels_of_files
    gpu_devices
    return 0
}

# `governor NAME COUNT`: how many CPUs have it; nothing where the kernel does not scale their clock.
governors() {
    local file line
    declare -A count=()
    for file in /sys/devices/system/cpu/cpufreq/policy*/scaling_governor; do
        first_line "$file" || line=unreadable
        ((count[$line]++))
    done
    for line in "${!count[@]}"; do printf 'governor %s %s\n' "$line" "${count[$line]}"; done
}

# Who sets the clock: a mark or a pid file that is alive of each daemon that does.
clock_marks() {
    local file line
    [[ -e /run/systemd/timesync/synchronized ]] && printf 'clock systemd-timesyncd\n'
    for file in /run/chrony/chronyd.pid /run/chronyd.pid /run/ntpd.pid /run/ntp.pid /run/ptp4l.pid; do
        first_line "$file" && [[ $line =~ ^[0-9]+$ && -d /proc/$line ]] && printf 'clock %s\n' "${file##*/}"
    done
}

# `resolves yes` where /etc/hosts knows the node's own name, else what the resolver says of it.
names_of_host() {
    local name line
    first_line /proc/sys/kernel/hostname && name=$line
    if in_hosts "$name" || { hash getent 2>/dev/null && getent ahosts -- "$name" >/dev/null 2>&1; }; then
        printf 'resolves yes\n'
    else
        printf 'resolves no\n'
    fi
}

# A reboot that waits, with the packages that ask for it, and whether modules of the running kernel are still there.
pending_reboot() {
    local line folder kernel
    if [[ -e /run/reboot-required || -e /var/run/reboot-required ]]; then
        printf 'reboot required\n'
        while read -r line; do printf 'reboot %s\n' "$line"; done 2>/dev/null </run/reboot-required.pkgs
    fi
    first_line /proc/sys/kernel/osrelease && kernel=$line
    for folder in /lib/modules/*/; do
        printf 'modules %s\n' "${folder%/}"
        [[ $folder == "/lib/modules/$kernel/" ]] && printf 'modules running\n'
    done
}

# Updates that replace the driver under running engines: the timer, what it may do, and what it must leave alone.
armed_updates() {
    local file line wants=/etc/systemd/system/timers.target.wants
    for file in apt-daily-upgrade.timer dnf-automatic.timer dnf-automatic-install.timer; do
        [[ -e $wants/$file && ! /etc/systemd/system/$file -ef /dev/null ]] && printf 'updates timer %s\n' "$file"
    done
    for file in /etc/apt/apt.conf.d/*; do
        while read -r line; do
            case $line in
                'APT::Periodic::Unattended-Upgrade'*) printf 'updates apt %s\n' "$line" ;;
                '"'*nvidia*'"'*) printf 'updates spare %s\n' "$line" ;;
            esac
        done 2>/dev/null <"$file"
    done
}

# SELinux: whether it is enforced, whether containers may use devices, and then the labels of what they are to see.
labels_of_files() {
    local line path there=()
    first_line "$selinux_folder/enforce" || return
    printf 'selinux enforce %s\n' "$line"
    [[ $line == 1 ]] || return
    first_line "$selinux_folder/booleans/container_use_devices" && printf 'selinux devices %s\n' "$line"
    for path in "${models[@]}" "${mounts[@]}"; do
        [[ -e $path ]] && there+=("$path")
    done
    ((${#there[@]} == 0)) || run stat --dereference --format 'label %C %n' -- "${there[@]}" 2>/dev/null
}

# Device nodes, the driver's module, the fabric manager, and the IOMMU groups of the GPUs.
gpu_devices() {
    local file line group
    for file in /dev/nvidia*; do
        [[ -c $file ]] && printf 'device %s\n' "${file##*/}"
    done
    for file in /dev/char/195:*; do printf 'char %s\n' "${file##*:}"; done
    first_line /sys/module/nvidia/version && printf 'module nvidia %s\n' "$line"
    [[ -d /sys/module/nvidia_peermem ]] && printf 'module nvidia_peermem\n'
    for file in /proc/driver/nvidia-nvswitch/devices/*; do printf 'nvswitch %s\n' "${file##*/}"; done
    if first_line /run/nvidia-fabricmanager/nv-fabricmanager.pid && [[ $line =~ ^[0-9]+$ && -d /proc/$line ]]; then
        printf 'fabricmanager %s\n' "$line"
    fi
    for file in /sys/bus/pci/drivers/nvidia/*:*; do
        for group in /sys/kernel/iommu_groups/*/devices/"${file##*/}"; do
            group=${group%/devices/*}
            first_line "$group/type" || line=unknown
            printf 'iommu %s %s %s\n' "${file##*/}" "${group##*/}" "$line"
        done
    done
}
