#!/bin/bash
# The node's own part of vllm-fleet, installed as /usr/local/lib/vllm-fleet/node (made of operations/node/*.sh).
#
# What it prints: `key=value` lines are results; a line that starts with "# " tells an operator how it goes on; a line
# that starts with "| " is quoted from the journal. What it answers with: 0 done, 1 refused or failed (`error=` says
# why), 2 called wrongly, 3 another run holds the lock.
set -u
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
export TMPDIR=/run # bash keeps large here-strings in files; one that carries a secret must not reach a disk
umask 077

STATE=/var/lib/vllm-fleet
UNITS=/etc/systemd/system
SELF=/usr/local/lib/vllm-fleet/node

note() { printf '# %s\n' "${1//[^ -~]/ }"; }

result() { printf '%s=%s\n' "$1" "${2//[^ -~]/ }"; }

die() { # TEXT
  result error "$1"
  exit 1
}

# Anything at all goes in, at most 8 KiB of printable lines come out: a cut or broken character must not leave the node.
# What conmon warns of (that it cannot watch a cgroup) stands in every journal and never tells why an engine failed.
quote_lines() {
  local line
  tail -c 8192 | while IFS= read -r line || [[ $line ]]; do
    [[ $line == conmon\ *\ \<n@(warn|info|debug)\>:* ]] || printf '| %s\n' "${line//[^ -~]/?}"
  done
}

# Files here appear by rename. The new name is fixed: these folders are root's alone, every writer holds a lock, and
# what a killed one left behind is overwritten.
write_line() { # PATH TEXT
  local new="${1%/*}/.${1##*/}.new"
  printf '%s\n' "$2" >"$new" && mv -fT -- "$new" "$1"
}

read_line() { # PATH: sets LINE, empty where there is no such file
  LINE=
  [[ -f $1 ]] && read -r LINE <"$1"
  return 0
}

# One verb at a time changes a service. Nobody holds this while an engine loads: no undo waits for a hanging start.
service_lock() { # SERVICE
  exec {GUARD}>>"$STATE/$1/.guard" || die "cannot open $STATE/$1/.guard"
  flock -w 60 "$GUARD" \
    || die "another verb has been changing $1 for more than 60 s; find it with: fuser -v $STATE/$1/.guard"
}

service_unlock() { exec {GUARD}>&-; }

complete() { # SERVICE ID: plan.json is the file that is written last
  [[ -f $STATE/$1/releases/$2/plan.json && -f $STATE/$1/releases/$2/unit ]]
}

is_current() { # SERVICE ID
  [[ $STATE/$1/current -ef $STATE/$1/releases/$2 ]]
}

unit_of() { printf -v "$2" 'vllm-%s.service' "$1"; } # SERVICE VARIABLE

# Which start of the unit is the one that was proven, or asked for, and what the files were that its container was given.
# systemd names each start. An audit tells of any other start, and of files that have changed since.
note_start() { # SERVICE UNIT
  local invocation= pid= line words=() at source files=()
  while IFS= read -r line; do
    case $line in
      InvocationID=*) invocation=${line#*=} ;;
      MainPID=*) pid=${line#*=} ;;
    esac
  done < <(systemctl show -p InvocationID -p MainPID -- "$2")
  [[ $invocation ]] || return 0
  { mapfile -d '' -t words <"/proc/$pid/cmdline"; } 2>/dev/null
  for at in "${!words[@]}"; do
    [[ ${words[at]} == --volume ]] || continue
    source=${words[at + 1]-}
    [[ -f ${source%%:*} ]] && files+=("${source%%:*}")
  done
  rm -f -- "$STATE/$1/mounted"
  ((${#files[@]} == 0)) || sha256sum -- "${files[@]}" >"$STATE/$1/mounted" || return
  write_line "$STATE/$1/started" "$invocation"
}

undo_timer() { # SERVICE start|stop [--no-block]
  systemctl "$2" ${3-} -- "vllm-fleet-undo@$1.timer"
}
