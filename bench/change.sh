# The change, after the facts, which have set `active` to the unit's state.
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
