# What an operator does to a whole service.

verb_start() { # SERVICE
  local unit began=$EPOCHSECONDS
  unit_of "$1" unit
  [[ -f $UNITS/$unit ]] || die "$unit is not on this node; deploy it first"
  systemctl reset-failed -- "$unit" 2>/dev/null
  if ! await_job start "$unit" 0; then
    tell_failure "$unit" "$began"
    die "$unit did not become active"
  fi
  [[ ! -d $STATE/$1 ]] || note_start "$1" "$unit"
  result active "$unit"
}

verb_stop() { # SERVICE
  local unit
  unit_of "$1" unit
  [[ -f $UNITS/$unit ]] || die "$unit is not on this node"
  await_job stop "$unit" 0 || die "$unit did not stop"
  result stopped "$unit"
}

verb_drop() { # SERVICE: the folder goes last, so that a drop that was cut off can be done again
  local unit runtime
  unit_of "$1" unit
  [[ -d $STATE/$1 || -e $UNITS/$unit ]] || { result dropped "$1"; result changed no; return; }
  trap '' HUP PIPE TERM INT
  [[ -d $STATE/$1 ]] && service_lock "$1"
  undo_timer "$1" stop --no-block
  if [[ -e $UNITS/$unit ]]; then
    await_job stop "$unit" 0 || die "$unit did not stop; nothing was removed"
    systemctl --root=/ disable --quiet -- "$unit" 2>/dev/null
    rm -f -- "$UNITS/$unit" || die "cannot remove $UNITS/$unit"
    systemctl daemon-reload
    systemctl reset-failed -- "$unit" 2>/dev/null
  fi
  for runtime in podman docker; do
    type -P "$runtime" >/dev/null && "$runtime" rm --force "vllm-$1" >/dev/null 2>&1
  done
  rm -rf -- "${STATE:?}/$1" || die "cannot remove $STATE/$1"
  result dropped "$1"
  result changed yes
}
