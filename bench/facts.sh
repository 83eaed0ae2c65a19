# The facts that bench/playbook.yml reads, as one script: for Ansible's one raw task and for the lean floor. The image is
# looked up in the store's index, for podman takes longer than all the rest.
printf '== gpus\n'
nvidia-smi "--query-gpu=$gpu_fields" --format=csv,noheader,nounits || fail nvidia-smi
printf '== topology\n'
nvidia-smi topo -m || fail "nvidia-smi topo"
printf '== numa and disks\n'
cat /sys/devices/system/node/node*/cpulist
stat -f -c '%S %b %a %n' -- /var/lib /var/lib/containers/storage || fail disks
printf '== ports\n'
ss -Htnp state listening || fail ports
printf '== unit\n'
active=$(systemctl show --value -p ActiveState -- "$unit") || fail "systemctl show"
printf '%s\n== model\n' "$active"
cat -- "$model/config.json" || fail model
printf '\n== image\n'
grep -lF "\"digest\":\"$image_digest\"" /usr/lib/containers/store/*-images/images.json || fail "image $image_digest"

