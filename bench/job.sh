# The whole job on one host in one script: what the floor and Ansible's one raw task carry. Written to be fast: the
# image is looked up in the store's index, the unit is enabled on the files alone, nothing is asked twice.
# Before this: service, unit_text, env_text, image_digest, model, gpu_fields and dry, each quoted once.
set -u
export LC_ALL=C
unit=vllm-$service.service
changed=0
reload=

fail() {
  printf 'failed=%s\n' "$1"
  exit 1
}

put() { # PATH MODE TEXT: appears by rename; in a dry run the difference is shown
  local old= new
  [[ -f $1 ]] && { IFS= read -r -d '' old <"$1" || true; }
  [[ $old == "$3" ]] && return
  changed=1
  [[ $1 == /etc/* ]] && reload=1
  if [[ $dry == 1 ]]; then
    printf %s "$3" | diff -u --label "$1" --label "$1" -- "$([[ $old ]] && printf %s "$1" || printf /dev/null)" -
    return 0
  fi
  mkdir -p -- "${1%/*}"
  new=$(mktemp -- "${1%/*}/.new.XXXXXX") && printf %s "$3" >"$new" && chmod "$2" "$new" && mv -fT -- "$new" "$1" \
    || fail "cannot write $1"
}

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

printf '== change\n'
umask 077
put "/var/lib/vllm-fleet/$service/current/env" 600 "$env_text"
put "/etc/systemd/system/$unit" 644 "$unit_text"
printf 'changed=%s\n' "$changed"
[[ $dry == 1 ]] && exit
[[ ! $reload ]] || systemctl daemon-reload || fail reload
if [[ ! -L /etc/systemd/system/multi-user.target.wants/$unit ]]; then
  systemctl --root=/ enable --quiet -- "$unit" || fail enable
fi
if [[ $changed == 1 ]]; then
  systemctl restart -- "$unit" || fail restart
  active=$(systemctl show --value -p ActiveState -- "$unit")
elif [[ $active != active ]]; then
  systemctl start -- "$unit" && active=active
fi
[[ $active == active ]] || fail "$unit is not active"
printf 'active=%s\n' "$unit"
