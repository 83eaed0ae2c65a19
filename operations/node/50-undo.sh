# Undoing: the proven release comes back. Each step can be done again, and `pending` goes last, so an undo that was
# killed anywhere is taken up again by the timer or by the next boot.

proven_of() { # SERVICE: sets PROVEN, empty where no release ever proved itself here
  read_line "$STATE/$1/proven"
  PROVEN=$LINE
  # It was complete when it proved itself: a plan.json that somebody removed since is no reason to leave nothing running.
  [[ ! $PROVEN || (-f $STATE/$1/releases/$PROVEN/unit && -f $STATE/$1/releases/$PROVEN/env) ]] \
    || die "cannot undo $1: its proven release $PROVEN is not complete in $STATE/$1/releases; deploy it anew"
}

put_back() { # SERVICE: files only
  local unit
  unit_of "$1" unit
  if [[ $PROVEN ]]; then
    flip "$1" "$PROVEN" && install_unit "$1" "$PROVEN" && enable_unit "$unit" || return
    sync -- "$STATE/$1" "$UNITS/$unit" "$UNITS"
  else
    systemctl --root=/ disable --quiet -- "$unit" 2>/dev/null
    rm -f -- "$UNITS/$unit" "$STATE/$1/current" || return
    sync -- "$STATE/$1" "$UNITS"
  fi
}

# At most 200 lines: time, reason, what failed, what came back.
log_undo() { # SERVICE REASON
  local lines=() file=$STATE/$1/undo.log
  [[ -f $file ]] && mapfile -t lines <"$file"
  read_line "$STATE/$1/pending"
  printf -v LINE '%(%FT%T%z)T\t%s\t%s\t%s' -1 "${2//[^ -~]/ }" "${LINE%% *}" "${PROVEN:-none}"
  if ((${#lines[@]} < 200)); then
    printf '%s\n' "$LINE" >>"$file"
  else
    printf '%s\n' "${lines[@]: -100}" "$LINE" >"$file.new" && mv -fT -- "$file.new" "$file"
  fi
}

settle() { # SERVICE REASON: the proven release is what the node will run; nothing waits for a proof any more
  log_undo "$1" "$2"
  rm -f -- "$STATE/$1/pending" && sync -- "$STATE/$1"
  undo_timer "$1" stop --no-block
}

# No proof in time. A pending file that cannot be read, or a clock that was set back, is no reason to wait.
is_due() { # SERVICE
  local id since deadline rest
  read -r id since deadline rest <"$STATE/$1/pending"
  [[ $since$deadline =~ ^[0-9]+$ && $deadline ]] || return 0
  ((EPOCHSECONDS >= deadline || EPOCHSECONDS < since - (deadline - since)))
}

undo_to_nothing() { # SERVICE UNIT REASON
  [[ ! -e $UNITS/$2 ]] || await_job stop "$2" 0 || die "$2 did not stop; it is tried again while it is pending"
  put_back "$1" || die "cannot remove $UNITS/$2; $1 is stopped"
  systemctl daemon-reload
  systemctl reset-failed -- "$2" 2>/dev/null
  settle "$1" "$3"
  result undone none
}

undo_to_proven() { # SERVICE UNIT REASON
  local began=$EPOCHSECONDS
  put_back "$1" || die "cannot put release $PROVEN of $1 back; is the disk full? It is tried again while it is pending"
  reload_if_needed "$2"
  [[ $FRESH ]] || systemctl reset-failed -- "$2" 2>/dev/null
  systemctl restart --no-block -- "$2" || die "cannot restart $2"
  settle "$1" "$3"
  result undone "$PROVEN"
  join_start "$1" "$2" "$began"
}

# Waits until the proven release has started, by the job that is under way where there is one.
join_start() { # SERVICE UNIT SINCE
  service_unlock
  trap - HUP PIPE TERM INT
  if await_job start "$2" 0; then
    note_start "$1" "$2"
    result active "$PROVEN"
  else
    tell_failure "$2" "$3"
    die "$2 did not become active with its proven release $PROVEN"
  fi
}

at_rest() { # SERVICE: nothing is pending, and what is current is what proved itself (or there is neither)
  [[ ! -f $STATE/$1/pending ]] || return
  if [[ $PROVEN ]]; then is_current "$1" "$PROVEN"; else [[ ! -e $STATE/$1/current ]]; fi
}

undo() { # SERVICE REASON [due]: with `due`, only where no proof came in time
  local unit
  unit_of "$1" unit
  [[ -d $STATE/$1 ]] || die "there is no service $1 on this node"
  trap '' HUP PIPE TERM INT
  service_lock "$1"
  if [[ ! -f $STATE/$1/pending && ${3-} ]]; then
    undo_timer "$1" stop --no-block
    return
  fi
  [[ ${3-} ]] && ! is_due "$1" && return
  proven_of "$1"
  if at_rest "$1"; then
    undo_timer "$1" stop --no-block # of an activation that was killed before it marked anything
    result undone "${PROVEN:-none}"
    result changed no
    # It may have been put back a moment ago by the timer or by a boot, and load.
    [[ ! $PROVEN ]] || systemctl --quiet is-active -- "$unit" || join_start "$1" "$unit" "$EPOCHSECONDS"
  elif [[ $PROVEN ]]; then
    undo_to_proven "$1" "$unit" "$2"
  else
    undo_to_nothing "$1" "$unit" "$2"
  fi
}

verb_undo() { undo "$1" "${2:-asked for}"; } # SERVICE [REASON]

verb_undo_due() { undo "$1" "no proof before the deadline" due; } # SERVICE

# Ordered before the services by their units. Whoever starts it at another time finds the undo timer running, and
# then the activation is not one that a reboot has cut off.
verb_boot_undo() {
  local pending service unit ready=() failed=0
  for pending in "$STATE"/*/pending; do
    [[ -f $pending ]] || continue
    service=${pending%/pending} service=${service##*/}
    systemctl --quiet is-active "vllm-fleet-undo@$service.timer" && continue
    if (service_lock "$service" && proven_of "$service" && put_back "$service"); then
      ready+=("$service")
    else
      failed=1
      undo_timer "$service" start --no-block # try again until it works
    fi
  done
  ((${#ready[@]} == 0)) || systemctl daemon-reload || die "cannot reload systemd"
  for service in "${ready[@]}"; do
    proven_of "$service"
    unit_of "$service" unit
    [[ $PROVEN ]] || systemctl stop --no-block -- "$unit" 2>/dev/null
    settle "$service" "the node was restarted before the proof"
    result "undone_$service" "${PROVEN:-none}"
  done
  return $failed
}
