# -- serving others ------------------------------------------------------------------------------------------------------

serve() { # the daemon: one port, one secret of this run, folders that can only be read, only for the nodes of this run
  local at try
  systemctl stop -- "$unit" 2>/dev/null
  systemctl reset-failed -- "$unit" 2>/dev/null
  mkdir -p -m 700 -- "$run_folder/items" || die target "cannot make $run_folder"
  (umask 077 && printf 'fleet:%s\n' "$secret" >"$run_folder/secrets") || die target "cannot write $run_folder/secrets"
  {
    printf 'port = %s\n' "$port"
    [[ ! $address ]] || printf 'address = %s\n' "$address"
    printf '%s\n' 'use chroot = yes' 'read only = yes' 'list = no' 'uid = 0' 'gid = 0' 'reverse lookup = no' \
      'auth users = fleet' "secrets file = $run_folder/secrets" "lock file = $run_folder/lock" \
      "max connections = $connections" 'dont compress = *' 'refuse options = delete remove-source-files'
    [[ ! $allowed ]] || printf 'hosts allow = %s\n' "$allowed"
    for at in "${!item_keys[@]}"; do
      printf '[%s]\npath = %s/items/%s\n' "${item_keys[at]}" "$run_folder" "${item_keys[at]}"
    done
  } >"$run_folder/rsyncd.conf"
  for at in "${!item_keys[@]}"; do offer "${item_keys[at]}" "${item_served[at]}"; done
  if (exec 3<>"/dev/tcp/${address:-127.0.0.1}/$port") 2>/dev/null; then
    die target "want port $port free for serving other nodes, found something else that listens there; declare delivery.port"
  fi
  systemd-run --quiet --unit="$unit" --collect --property=NoNewPrivileges=yes --property=ProtectSystem=strict \
    --property=PrivateTmp=yes --property="ReadWritePaths=$run_folder" --property=KillMode=control-group \
    --property='CapabilityBoundingSet=CAP_SYS_CHROOT CAP_DAC_READ_SEARCH CAP_SETUID CAP_SETGID CAP_KILL' \
    -- bash -c "$watch_text" watch "$home/lease" "$run_id" "$run_folder/rsyncd.conf" </dev/null \
    || die target "systemd-run cannot start the daemon that serves other nodes"
  for ((try = 0; try < 100; try++)); do
    (exec 3<>"/dev/tcp/${address:-127.0.0.1}/$port") 2>/dev/null && return
    systemctl is-active --quiet "$unit" || break
    sleep 0.1
  done
  die target "want port $port free for serving other nodes, found: $(journalctl -q -u "$unit" -n 3 -o cat 2>/dev/null | tr '\n' ' ')"
}

watch_text='
rsync --daemon --no-detach --config="$3" & daemon=$!
trap "exit 0" TERM
while sleep 3 & wait "$!" && kill -0 "$daemon" 2>/dev/null; do
  read -r run expires rest <"$1" && [[ $run == "$2" ]] && ((EPOCHSECONDS < expires)) || break
done
kill "$daemon" 2>/dev/null
'

offer() { # KEY FOLDER: what others get under this name, from their next connection on
  ln -sfn -- "$2" "$run_folder/items/.$1.new" && mv -fT -- "$run_folder/items/.$1.new" "$run_folder/items/$1"
}

verb_offer_place() { offer "$key_served" "$path"; } # what lay there turned out to be right: others get it from there

verb_begin() {
  local at
  take_lease
  for at in "${!stagings[@]}"; do
    mkdir -p -- "${stagings[at]}/files" "${stagings[at]}/parts" || die target "cannot make ${stagings[at]}"
  done
  [[ ! $secret ]] || serve
  result begun "$run_id"
}

