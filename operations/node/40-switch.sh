# Switching: current, the installed unit and the process are brought to one release.

flip() { # SERVICE ID: current -> releases/ID
  local new="$STATE/$1/.current.new"
  ln -sfn -- "releases/$2" "$new" && mv -fT -- "$new" "$STATE/$1/current"
}

install_unit() { # SERVICE ID
  local unit
  unit_of "$1" unit
  cmp -s -- "$STATE/$1/releases/$2/unit" "$UNITS/$unit" && [[ $(stat -c '%a %U' -- "$UNITS/$unit") == '644 root' ]] && return
  if install -m 644 -T -- "$STATE/$1/releases/$2/unit" "$UNITS/.$unit.new" 2>/dev/null; then
    mv -fT -- "$UNITS/.$unit.new" "$UNITS/$unit"
  else # A full disk must not stop an undo: writing over the old file needs no new room.
    rm -f -- "$UNITS/.$unit.new"
    cp -- "$STATE/$1/releases/$2/unit" "$UNITS/$unit"
  fi
}

# As `systemctl enable` does it, for two processes less. It must lie there before systemd is asked for the unit: of a
# unit that it has loaded it reads the enablement once. Until the proof, the boot unit puts back what was proven first.
enable_unit() { # UNIT
  local wants=$UNITS/multi-user.target.wants
  [[ -L $wants/$1 ]] && return
  [[ -d $wants ]] || mkdir -m 755 -- "$wants" || return
  ln -s -- "$UNITS/$1" "$wants/$1" && sync -- "$wants"
}

# A reload costs the host more than everything else here (180 ms of CPU), and a unit that systemd never saw needs none:
# it is asked whether what it has loaded is what lies on disk. Sets FRESH where the unit never ran.
reload_if_needed() { # UNIT
  local line load= stale= changed= enabled=
  while IFS= read -r line; do
    case $line in
      LoadState=*) load=${line#*=} ;;
      UnitFileState=*) enabled=${line#*=} ;;
      NeedDaemonReload=*) stale=${line#*=} ;;
      StateChangeTimestampMonotonic=*) changed=${line#*=} ;;
    esac
  done < <(systemctl show -p LoadState -p UnitFileState -p NeedDaemonReload -p StateChangeTimestampMonotonic -- "$1")
  FRESH=
  [[ $changed == 0 ]] && FRESH=1
  [[ $load == loaded && $enabled == enabled && $stale == no ]] || systemctl daemon-reload
}

progress() { # UNIT SECONDS
  local state= sub= last
  { read -r state; read -r sub; } < <(systemctl show --value -p ActiveState -p SubState -- "$1")
  last=$(journalctl --quiet --no-pager --output=cat --lines=1 --unit="$1" 2>/dev/null)
  note "$2 s $state/$sub: ${last:0:200}"
}

# A blocking systemctl, with a line now and then that says how far the unit is: after 10 s, then every 20 s, for to look
# costs a node more than to wait, and a load takes minutes. 124: LIMIT_S passed.
await_job() { # VERB UNIT LIMIT_S (0: as long as systemd lets it, by the unit's own budgets)
  local fd pid line code pause=10 began=$EPOCHSECONDS
  exec {fd}< <(exec systemctl "$1" -- "$2" 2>&1)
  pid=$!
  while :; do
    if read -r -t "$pause" -u "$fd" line; then
      note "systemctl: $line"
    elif (($? <= 128)); then
      exec {fd}<&-
      wait "$pid"
      code=$?
      # How a process behind `<(` ended bash does not know where it ended before bash had noted it: it says -1. The job
      # is over, so the unit itself tells what came of it.
      ((code >= 0)) || { systemctl --quiet is-active -- "$2"; code=$?; [[ $1 != stop ]] || code=$((code == 0)); }
      return "$code"
    elif (($3 > 0 && EPOCHSECONDS - began >= $3)); then
      kill "$pid"
      return 124
    else
      progress "$2" $((EPOCHSECONDS - began))
      pause=20
      (($3 == 0 || began + $3 - EPOCHSECONDS >= 20)) || pause=$((began + $3 - EPOCHSECONDS + 1))
    fi
  done
}

tell_failure() { # UNIT SINCE: why it failed, and the last of its journal since then
  local line
  while IFS= read -r line; do [[ $line ]] && printf '%s\n' "$line"; done \
    < <(systemctl show -p ActiveState -p SubState -p Result -p ExecMainStatus -p NRestarts -- "$1")
  journalctl --quiet --no-pager --output=cat --lines=30 --since="@$2" --unit="$1" 2>/dev/null | quote_lines
}

# Written before anything is switched, and only with the timer running that undoes it: no release can be active,
# unproven and without somebody who puts the old one back.
mark_pending() { # SERVICE ID DEADLINE_S RUN
  if ! undo_timer "$1" start; then
    systemctl daemon-reload
    undo_timer "$1" start \
      || die "cannot start vllm-fleet-undo@$1.timer: nothing would undo a failed start; nothing was changed"
  fi
  write_line "$STATE/$1/pending" "$2 $EPOCHSECONDS $((EPOCHSECONDS + $3)) $4" \
    && sync -- "$STATE/$1/pending" "$STATE/$1" || give_up "$1" "cannot write $STATE/$1/pending; is the disk full?"
}

give_up() { # SERVICE TEXT: nothing was switched yet
  rm -f -- "$STATE/$1/pending"
  undo_timer "$1" stop --no-block
  die "$2; nothing was changed"
}

# podman notes the environment of its containers, secrets included, in a database. Where podman was first used with a
# common umask everybody can read it, for its folder is open too.
close_podman_database() {
  local line folder=/var/lib/containers/storage
  while IFS= read -r line; do
    [[ $line =~ ^[[:space:]]*graphroot[[:space:]]*=[[:space:]]*\"([^\"]+)\" ]] && folder=${BASH_REMATCH[1]}
  done 2>/dev/null </etc/containers/storage.conf
  [[ ! -f $folder/db.sql ]] || chmod go= -- "$folder/db.sql"
}

bring_to() { # SERVICE ID DEADLINE_S RUN: pending, current and installed; sets UNIT. The process is left as it is.
  local unit
  unit_of "$1" unit
  UNIT=$unit
  complete "$1" "$2" || die "release $2 of $1 is not complete on this node; stage it first"
  trap '' HUP PIPE TERM INT # a controller that dies here must not leave half a switch
  service_lock "$1"
  [[ ! -f $STATE/$1/releases/$2/secrets.env ]] || close_podman_database \
    || die "cannot make podman's database readable for root only; nothing was changed"
  mark_pending "$@"
  flip "$1" "$2" && install_unit "$1" "$2" && enable_unit "$unit" \
    || die "cannot switch $1 to $2; the undo timer will put the proven release back"
  sync -- "$STATE/$1" "$UNITS/$unit" "$UNITS"
  reload_if_needed "$unit"
  # Else the starts of earlier rollouts count against the unit's limit.
  [[ $FRESH ]] || systemctl reset-failed -- "$unit" 2>/dev/null
  service_unlock
  trap - HUP PIPE TERM INT
}

# For an engine over several hosts: its old parts must all be gone before the first new one looks for the others.
verb_switch() { # SERVICE ID DEADLINE_S RUN
  bring_to "$@"
  await_job stop "$UNIT" "$3" || die "$UNIT did not stop"
  result switched "$2"
}

verb_activate() { # SERVICE ID DEADLINE_S RUN
  local unit began=$EPOCHSECONDS code
  bring_to "$@"
  unit=$UNIT
  await_job restart "$unit" "$3"
  code=$?
  read_line "$STATE/$1/pending"
  [[ $LINE == "$2 "*" $4" ]] \
    || die "$2 of $1 is no longer pending: it was undone or replaced meanwhile; see $STATE/$1/undo.log"
  result seconds $((EPOCHSECONDS - began))
  if ((code != 0)); then
    tell_failure "$unit" "$began"
    ((code == 124)) && die "$unit is not active after $3 s"
    die "$unit did not become active"
  fi
  result active "$2"
}

prune_releases() { # SERVICE KEEP...: everything else goes, and what killed stagings left
  local folder service=$1 gone=()
  shift
  for folder in "$STATE/$service/releases"/* "$STATE/$service/releases"/.[!.]*; do
    [[ -d $folder && " $* " != *" ${folder##*/} "* ]] || continue
    is_current "$service" "${folder##*/}" || gone+=("$folder")
  done
  ((${#gone[@]} == 0)) || rm -rf -- "${gone[@]}"
}

verb_confirm() { # SERVICE ID; proof.json on stdin
  local unit proof proven previous folder=$STATE/$1
  unit_of "$1" unit
  proof=$(cat)
  [[ $proof ]] || die "confirm: want the proof on stdin, found nothing"
  complete "$1" "$2" || die "release $2 of $1 is not complete on this node"
  service_lock "$1"
  read_line "$folder/proven" && proven=$LINE
  read_line "$folder/previous" && previous=$LINE
  # What is no release must not become the one to go back to, nor cost the one that is.
  complete "$1" "${proven:-none}" || proven=
  read_line "$folder/pending"
  is_current "$1" "$2" && { [[ ${LINE%% *} == "$2" ]] || [[ ! $LINE && $proven == "$2" ]]; } \
    || die "$2 of $1 is not pending (found: ${LINE:-nothing}): it was undone or replaced; see $folder/undo.log"
  trap '' HUP PIPE TERM INT
  write_line "$folder/releases/$2/proof.json" "$proof" || die "cannot write proof.json; is the disk full?"
  note_start "$1" "$unit" || die "cannot write $folder/started; is the disk full?"
  if [[ $proven != "$2" ]]; then
    if [[ $proven ]]; then
      write_line "$folder/previous" "$proven" || die "cannot write $folder/previous"
      previous=$proven
    fi
    write_line "$folder/proven" "$2" || die "cannot write $folder/proven"
  fi
  sync -- "$folder/releases/$2/proof.json" "$folder/proven" "$folder" || die "cannot write $folder/proven"
  rm -f -- "$folder/pending" || die "cannot remove $folder/pending"
  undo_timer "$1" stop --no-block
  prune_releases "$1" "$2" "$previous"
  result proven "$2"
  result previous "$previous"
}

verb_verified() { # SERVICE ID; verify.json on stdin
  local found
  found=$(cat)
  [[ $found ]] || die "verified: want what was found on stdin, found nothing"
  complete "$1" "$2" || die "release $2 of $1 is not complete on this node"
  service_lock "$1"
  is_current "$1" "$2" || die "$2 of $1 is no longer current: it was replaced while it was asked"
  write_line "$STATE/$1/releases/$2/verify.json" "$found" || die "cannot write verify.json; is the disk full?"
  result verified "$2"
}
