#!/bin/sh
# Keeps one lab host: its disk and its boots. Runs in a mount namespace of its own, so that all of its mounts go with it.
#
# keeper.sh RUN LOWER STORE CGROUP NETNS NODE DISK [OPTION-OF-NSPAWN...]
#   RUN     folder of the host on this machine        LOWER  lower layers of its root, as overlay wants them
#   STORE   images, shared and read-only              CGROUP its cgroup, with the children keeper and host
#   NETNS   its network namespace                     NODE   its host name
#   DISK    size of its disk (tmpfs), or a folder of this machine that is its disk
#
# The host boots again after a reboot from inside (systemd-nspawn --keep-unit then exits 133) and after a power cut
# (the file RUN/again is there); anything else is a power-off, and the keeper ends.
set -eu
run=$1 lower=$2 store=$3 cgroup=$4 netns=$5 node=$6 disk=$7
shift 7

echo $$ >"$cgroup/keeper/cgroup.procs"
case $disk in
/*) mount --bind "$disk" "$run/disk" ;;
*) mount -t tmpfs -o "mode=0755,size=$disk" vllm-fleet-lab "$run/disk" ;;
esac
mkdir "$run/disk/upper" "$run/disk/work" "$run/disk/root" "$run/disk/containers"
mount -t overlay -o "lowerdir=$lower,upperdir=$run/disk/upper,workdir=$run/disk/work" vllm-fleet-lab "$run/disk/root"

# Device nodes as a driver's would be, as many as most recorded nodes have.
nodes=
for name in 0 1 2 3 4 5 6 7 ctl -uvm; do nodes="$nodes --bind=/dev/null:/dev/nvidia$name"; done

boot() {
    # SYSTEMD_NSPAWN_UNIFIED_HIERARCHY: machines that still have cgroup version 1 would pass that on to the host.
    # bpf: what crun uses for the devices of a container. CAP_NET_ADMIN: the namespace is the host's own.
    SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$cgroup/host" \
        systemd-nspawn --quiet --directory="$run/disk/root" --boot \
        --network-namespace-path="/run/netns/$netns" --capability=CAP_NET_ADMIN \
        --machine="$netns" --hostname="$node" --register=no --keep-unit --link-journal=no \
        --resolv-conf=off --timezone=off --console=pipe --kill-signal=SIGRTMIN+4 --no-new-privileges=no \
        --system-call-filter=bpf \
        --bind="$run/disk/containers:/var/lib/containers" \
        --bind-ro="$store:/usr/lib/containers/store" $nodes \
        --bind-ro="$run/gpu:/var/lib/vllm-fleet-lab/gpu" \
        --bind-ro="$run/gpu/numa:/sys/devices/system/node" "$@"
}

boots=0
while :; do
    find "$cgroup/host" -mindepth 1 -depth -type d -exec rmdir {} +
    rm -f "$run/again"
    boots=$((boots + 1))
    echo "$boots" >"$run/boots"
    status=0
    boot "$@" || status=$?
    echo 1 >"$cgroup/host/cgroup.kill"
    [ "$status" -eq 133 ] || [ -e "$run/again" ] || exit "$status"
    while grep -q "populated 1" "$cgroup/host/cgroup.events"; do sleep 0.05; done
done
