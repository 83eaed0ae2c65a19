# An engine over several hosts is made once, of all its parts. Where one went, a host that is left starts its own anew.

# The head's engine holds a connection of each other host at its master port as long as that host's process lives.
all_joined() { # PORT ADDRESS...: 0 all are there, 1 one is not
  local there address
  there=$(ss -Htn state established "( sport = :$1 )" 2>/dev/null)
  for address in "${@:2}"; do # as 10.0.0.2:1234, [fd00::2]:1234 or [::ffff:10.0.0.2]:1234
    [[ $there == *[[:space:]]"$address:"* || $there == *"[$address]:"* || $there == *":$address]:"* ]] || return 1
  done
}

# A head that starts answers nobody until all parts have joined: a closed port means that this part is none of them.
# One that does not answer at all may be behind a broken cable: nothing follows from that.
head_answers() { # PORT ADDRESS: 0 open, 1 closed, 2 unknown
  local fd line=
  exec {fd}< <({ exec 3<>"/dev/tcp/$2/$1"; } 2>&1 && printf 'open\n')
  IFS= read -r -t 5 -u "$fd" line || kill "$!" 2>/dev/null
  exec {fd}<&-
  case $line in
    open) return 0 ;;
    *'Connection refused') return 1 ;;
    *) return 2 ;;
  esac
}

verb_follow() { # SERVICE
  local unit plan words idle line seen= gone=0 look
  unit_of "$1" unit
  plan=$(cat -- "$STATE/$1/current/plan.json" 2>/dev/null)
  [[ $plan =~ \"follow\":\ \"(all_joined|head_answers)\ ([0-9a-fA-F.: ]+)\" ]] \
    || die "want the other hosts of $1 in $STATE/$1/current/plan.json, found none"
  look=${BASH_REMATCH[1]}
  read -r -a words <<<"${BASH_REMATCH[2]}"
  exec {idle}<> <(:) # never readable: a pause without a process
  while :; do
    "$look" "${words[@]}"
    case $? in
      0) seen=1 gone=0 ;;
      1) gone=$((gone + 1)) ;;
    esac
    if [[ $seen ]] && ((gone >= 2)); then
      exec {GUARD}>>"$STATE/$1/.guard"
      if flock -n "$GUARD" && [[ ! -e $STATE/$1/pending ]]; then # else another verb is at work, or a rollout proves it
        printf '%(%Y-%m-%dT%H:%M:%S%z)T another host of the engine is gone: restarted\n' -1 >>"$STATE/$1/undo.log"
        systemctl restart --no-block -- "$unit" || die "$unit could not be restarted"
        result restarted "$unit"
        return
      fi
      service_unlock
    fi
    read -r -t 5 -u "$idle" line
  done
}
