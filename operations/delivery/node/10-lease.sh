# A delivery's part on a node. Sent over stdin with each call, behind the values of the call, each quoted once: nothing is
# installed, nothing of it stands in an argv. `key=value` lines are results; `blame=` says whose fault an `error=` is:
# target (this node), source (who was asked), content (what arrived).
set -u
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
umask 022
home=$state/.delivery
run_folder=/run/vllm-fleet-delivery
unit=vllm-fleet-delivery.service

result() { printf '%s=%s\n' "$1" "${2//[^ -~]/?}"; }

die() { # BLAME TEXT
  result blame "$1"
  result error "$2"
  exit 1
}

# -- the lease: who delivers here now. It ends by itself where the controller dies, and with it all that listens. --------

read_lease() { # sets L_RUN L_EXPIRES L_HOLDER
  L_RUN= L_EXPIRES=0 L_HOLDER=
  [[ ! -f $home/lease ]] || read -r L_RUN L_EXPIRES L_HOLDER <"$home/lease"
  [[ $L_EXPIRES =~ ^[0-9]+$ ]] || L_EXPIRES=0
}

write_lease() {
  local new=$home/.lease.$$ # several verbs renew it at the same time
  printf '%s %s %s\n' "$run_id" "$((EPOCHSECONDS + lease_s))" "$holder" >"$new" \
    && mv -fT -- "$new" "$home/lease" || { rm -f -- "$new"; die target "cannot write $home/lease; is the disk full?"; }
}

renew() {
  read_lease
  [[ $L_RUN == "$run_id" ]] || die target "another delivery took this node over: ${L_HOLDER:-nobody knows who}"
  write_lease
}

take_lease() {
  local guard waited=0
  mkdir -p -m 700 -- "$home" || die target "cannot make $home"
  exec {guard}>>"$home/.guard" && flock -w 20 "$guard" || die target "cannot lock $home/.guard"
  read_lease
  while [[ $L_RUN && $L_RUN != "$run_id" ]] && ((EPOCHSECONDS < L_EXPIRES)); do
    ((waited++ < lease_s + 10 && L_EXPIRES - EPOCHSECONDS <= lease_s + 10)) \
      || die target "another delivery runs here: $L_HOLDER; wait for its end, at most $((L_EXPIRES - EPOCHSECONDS)) s after it died"
    sleep 1
    read_lease
  done
  write_lease
  exec {guard}>&-
  ((waited == 0)) || result waited "$waited" # what was looked at before may be another by now
}

# Bytes that arrived so far: parts grow as they come.
arrived() { find "$staging/parts" -type f -printf '%s\n' 2>/dev/null | awk '{ sum += $1 } END { printf "%.0f", sum }'; }

# rsync's own --timeout is of no use against a peer whose network is gone: what it still writes to its socket counts as
# life. So what counts here is what arrives.
stalled() { # SECONDS: has nothing arrived for so long? Remembers in STALL_BYTES and STALL_SINCE.
  local now
  now=$(arrived)
  if [[ $now != "$STALL_BYTES" ]]; then
    STALL_BYTES=$now STALL_SINCE=$EPOCHSECONDS
  fi
  ((EPOCHSECONDS - STALL_SINCE >= $1))
}

watch_over() { # PID LOG STALL_S (0: as long as it likes)
  STALL_BYTES= STALL_SINCE=$EPOCHSECONDS
  while sleep 5; do
    read_lease
    if [[ $L_RUN != "$run_id" ]] || ((EPOCHSECONDS >= L_EXPIRES)); then
      kill "$1"
    elif (($3 > 0)) && stalled "$3"; then
      printf 'no byte arrived for %d s\n' "$3" >>"$2"
      pkill -P "$1"
      kill "$1"
    fi
  done
}

# A mover that outlives its controller would write where the next run writes.
guarded() { # STALL_S COMMAND...: its output in SAID, its exit code
  local log pid dog code stall_s=$1
  shift
  log=$(mktemp -p /run vllm-fleet-delivery.XXXXXX) || die target "cannot write in /run"
  "$@" >>"$log" 2>&1 & # appended, for the watch writes there too
  pid=$!
  watch_over "$pid" "$log" "$stall_s" </dev/null >/dev/null 2>&1 &
  dog=$!
  wait "$pid"
  code=$?
  kill "$dog" 2>/dev/null
  SAID=$(tail -c 2000 -- "$log")
  rm -f -- "$log"
  return "$code"
}

