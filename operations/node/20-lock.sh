# The lock of a rollout: one line `HOLDER SINCE EXPIRES RUN`, separated by tabs, in seconds of this node's clock.

lock_guard() {
  [[ -d $STATE ]] || mkdir -p -m 700 -- "$STATE" || die "cannot make $STATE"
  exec {GUARD}>>"$STATE/.guard" || die "cannot open $STATE/.guard"
  flock -w 20 "$GUARD" || die "another verb has been looking at the lock for more than 20 s"
  HOLDER= SINCE= EXPIRES= RUN=
  [[ -f $STATE/lock ]] && IFS=$'\t' read -r HOLDER SINCE EXPIRES RUN <"$STATE/lock"
  [[ ! -f $STATE/lock || ($SINCE$EXPIRES =~ ^[0-9]+$ && $EXPIRES && $RUN) ]] \
    || die "$STATE/lock cannot be read (found: '$HOLDER $SINCE $EXPIRES $RUN'); remove it when no rollout runs"
}

held_by_other() {
  result error "the lock of this node is held by ${HOLDER:-nobody}${RUN:+, run $RUN, lease until $EXPIRES}"
  result held "$HOLDER"
  result since "$SINCE"
  result expires "$EXPIRES"
  result now "$EPOCHSECONDS"
  exit 3
}

take_lock() { # HOLDER SINCE RUN LEASE_S
  write_line "$STATE/lock" "$1"$'\t'"$2"$'\t'"$((EPOCHSECONDS + $4))"$'\t'"$3" \
    && sync -- "$STATE/lock" "$STATE" || die "cannot write $STATE/lock; is the disk full?"
  result locked "$3"
  result since "$2"
  result expires "$((EPOCHSECONDS + $4))"
}

verb_lock() { # HOLDER RUN LEASE_S
  local since=$EPOCHSECONDS
  lock_guard
  [[ $RUN && $RUN != "$2" ]] && ((EPOCHSECONDS < EXPIRES)) && held_by_other
  [[ $RUN == "$2" ]] && since=$SINCE
  [[ $RUN && $RUN != "$2" ]] && note "the lease of $HOLDER (run $RUN) ended at $EXPIRES: taken over"
  take_lock "$1" "$since" "$2" "$3"
}

verb_renew() { # RUN LEASE_S
  lock_guard
  [[ $RUN == "$1" ]] || held_by_other
  take_lock "$HOLDER" "$SINCE" "$1" "$2"
}

# A controller that slept longer than its lease must not go on where another has taken over, or may at any moment.
require_lock() { # RUN
  lock_guard
  [[ $RUN == "$1" ]] && ((EPOCHSECONDS < EXPIRES)) || held_by_other
  service_unlock
}

verb_unlock() { # RUN
  lock_guard
  [[ $RUN && $RUN != "$1" ]] && held_by_other
  rm -f -- "$STATE/lock" || die "cannot remove $STATE/lock"
  result unlocked "$1"
}
