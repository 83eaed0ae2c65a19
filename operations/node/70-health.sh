# ExecStartPost of a service: it is active only when /health has answered 200. systemd's TimeoutStartSec is the budget.

# In a process of its own, because a connect may hang. It reads to the end: a reset would fill the engine's log.
ask_health() { # PORT HOST: prints the status line
  local status rest
  exec 3<>"/dev/tcp/$2/$1" || return
  printf 'GET /health HTTP/1.0\r\nHost: %s:%s\r\n\r\n' "$2" "$1" >&3
  IFS= read -r -t 5 status <&3 || return
  while IFS= read -r -t 5 rest <&3; do :; done
  printf '%s\n' "$status"
}

# systemd does not end an ExecStartPost when the main process dies, so that is looked for here: a start that crashed
# must fail now and not when its budget is over.
verb_wait_health() { # PORT [HOST]
  local port=$1 host=${2:-127.0.0.1} fd idle line said= pause=0.2
  exec {idle}<> <(:) # never readable: a pause without a process
  while :; do
    [[ ! ${MAINPID-} || -d /proc/$MAINPID ]] || die "the main process $MAINPID ended before /health answered"
    line=
    exec {fd}< <(ask_health "$port" "$host" 2>/dev/null)
    IFS= read -r -t 11 -u "$fd" line || kill "$!" 2>/dev/null
    exec {fd}<&-
    [[ $line == HTTP/1.?\ 200* ]] && return
    [[ $line && $line != "$said" ]] && note "http://$host:$port/health: $line"
    said=$line
    read -r -t "$pause" -u "$idle" line
    [[ $pause == 0.2 ]] && pause=0.4 || pause=1
  done
}

# ExecStartPre of a part without HTTP of its own: it must not join an engine whose head is about to end, for that head
# counts its parts once, when it starts. Nobody at the head's port: it starts too, or will.
verb_wait_gone() { # PORT HOST
  local fd idle line pause=1 said=
  exec {idle}<> <(:) # never readable: a pause without a process
  while :; do
    line=
    exec {fd}< <({ exec 3<>"/dev/tcp/$2/$1"; } 2>/dev/null && printf 'open\n')
    IFS= read -r -t 5 -u "$fd" line || kill "$!" 2>/dev/null
    exec {fd}<&-
    [[ $line == open ]] || return 0
    [[ $said ]] || note "an engine still answers at $2:$1; waiting until it is gone"
    said=1
    read -r -t "$pause" -u "$idle" line
  done
}
