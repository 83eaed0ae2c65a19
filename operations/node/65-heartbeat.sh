# A tiny completion with a deadline: an engine that hangs answers /health all the same. systemd's timer calls this once a
# minute; only misses one after the other, with no token generated between them, restart the service.

# In a process of its own, because any of this may hang. HTTP/1.0, so that the engine closes when it has said all.
ask_token() { # HOST PORT MODEL-AS-IN-JSON: prints yes where a token came, else what came instead
  local line status body= text="{\"model\": \"$3\", \"prompt\": \"1\", \"max_tokens\": 1}"
  exec 3<>"/dev/tcp/$1/$2" || return
  printf 'POST /v1/completions HTTP/1.0\r\nHost: %s:%s\r\nContent-Type: application/json\r\n%sContent-Length: %s\r\n\r\n%s' \
    "$1" "$2" "${VLLM_API_KEY:+Authorization: Bearer $VLLM_API_KEY$'\r\n'}" "${#text}" "$text" >&3
  IFS= read -r status <&3 || return
  while IFS= read -r line <&3 || [[ $line ]]; do body+=${line%$'\r'}; done
  if [[ $status == HTTP/1.?\ 200* && $body =~ \"completion_tokens\":\ ?[1-9] ]]; then
    printf 'yes\n'
  else
    printf '%s %s\n' "${status%$'\r'}" "${body: -120}"
  fi
}

# What the engine has generated so far, as its metrics say it; empty where they say nothing.
count_tokens() { # HOST PORT
  local line found=
  exec 3<>"/dev/tcp/$1/$2" || return
  printf 'GET /metrics HTTP/1.0\r\nHost: %s:%s\r\n\r\n' "$1" "$2" >&3
  while IFS= read -r line <&3; do
    [[ $line == vllm:generation_tokens_total* ]] && found+=",${line##* }"
  done
  printf '%s\n' "${found%$'\r'}"
}

within() { # SECONDS COMMAND...: sets LINE to the first line that it prints in time, else empty
  local fd limit=$1
  shift
  exec {fd}< <("$@" 2>/dev/null)
  IFS= read -r -t "$limit" -u "$fd" LINE || { kill "$!" 2>/dev/null; LINE=; }
  exec {fd}<&-
}

verb_heartbeat() { # SERVICE
  local unit line active= started=0 plan host port limit misses model budget=0 up answer tokens missed=0 before=
  unit_of "$1" unit
  plan=$(cat -- "$STATE/$1/current/plan.json" 2>/dev/null)
  [[ $plan =~ \"heartbeat\":\ \"([^ ]+)\ ([0-9]+)\ ([0-9]+)\ ([0-9]+)\ (([^\"\\]|\\.)*)\" ]] || return 0
  host=${BASH_REMATCH[1]} port=${BASH_REMATCH[2]} limit=${BASH_REMATCH[3]} misses=${BASH_REMATCH[4]} model=${BASH_REMATCH[5]}
  [[ $plan =~ \"start_budget_s\":\ ([0-9]+) ]] && budget=${BASH_REMATCH[1]}
  exec {GUARD}>>"$STATE/$1/.guard" && flock -n "$GUARD" || return 0 # another verb is at work
  [[ ! -e $STATE/$1/pending ]] || return 0                           # a rollout proves it
  while IFS= read -r line; do
    case $line in
      ActiveState=*) active=${line#*=} ;;
      ExecMainStartTimestampMonotonic=*) started=${line#*=} ;;
    esac
  done < <(systemctl show -p ActiveState -p ExecMainStartTimestampMonotonic -- "$unit")
  read -r up _ </proc/uptime
  if [[ $active != active ]] || ((${up%.*} - started / 1000000 < budget)); then
    rm -f -- "$STATE/$1/misses"
    return 0
  fi
  service_unlock # an answer may take its time; no undo waits for it
  within "$limit" ask_token "$host" "$port" "$model"
  answer=$LINE
  if [[ $answer == yes ]]; then
    rm -f -- "$STATE/$1/misses"
    return
  fi
  if [[ $answer == HTTP/1.?\ 4* ]]; then # it lives, and a restart would not teach it another key or name
    result refused "$answer"
    return
  fi
  within 5 count_tokens "$host" "$port"
  tokens=$LINE
  read_line "$STATE/$1/misses"
  [[ $LINE ]] && read -r missed before <<<"$LINE"
  # It generates, so it lives: what waits behind a full queue is late, not lost.
  [[ $tokens && $before && $tokens != "$before" ]] && missed=0
  missed=$((missed + 1))
  result missed "$missed of $misses: ${answer:-no answer within $limit s}"
  if ((missed < misses)); then
    write_line "$STATE/$1/misses" "$missed $tokens"
    return
  fi
  exec {GUARD}>>"$STATE/$1/.guard" && flock -n "$GUARD" && [[ ! -e $STATE/$1/pending ]] || return 0
  rm -f -- "$STATE/$1/misses"
  printf '%(%Y-%m-%dT%H:%M:%S%z)T heartbeat missed %s times: restarted\n' -1 "$missed" >>"$STATE/$1/undo.log"
  systemctl restart --no-block -- "$unit" || die "$unit could not be restarted"
  result restarted "$unit"
}
