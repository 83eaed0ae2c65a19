# Beginning of what is sent to a node over stdin: small files put in place, then calls of the node script.
set -u
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
NODE=/usr/local/lib/vllm-fleet/node
RELOAD=
umask 022

put() { # PATH MODE SHA256 TEXT
  local folder=${1%/*} new sum rest
  [[ -d $folder ]] || mkdir -p -m 755 -- "$folder" || fail "cannot make $folder"
  new=$(mktemp -- "$folder/.vllm-fleet.XXXXXX") || fail "cannot write in $folder; is the disk full?"
  printf %s "$4" >"$new" && read -r sum rest < <(sha256sum -- "$new")
  [[ ${sum-} == "$3" ]] || { rm -f -- "$new"; fail "cannot write $1; is the disk full?"; }
  chmod -- "$2" "$new" && chown root:root -- "$new" || { rm -f -- "$new"; fail "cannot set owner and mode of $1"; }
  # systemd finds a file that it never read by itself.
  [[ $1 == /etc/systemd/system/* && -e $1 ]] && RELOAD=1
  mv -fT -- "$new" "$1" || { rm -f -- "$new"; fail "cannot put $1 in place"; }
  printf 'put=%s\n' "$1"
}

support_ready() {
  systemctl --root=/ enable --quiet vllm-fleet-boot.service || fail "cannot enable vllm-fleet-boot.service"
  [[ ! $RELOAD ]] || systemctl daemon-reload || fail "cannot reload systemd"
}

fail() { # TEXT
  printf 'error=%s\n' "$1"
  exit 1
}

call() { # INDEX VERB ARGUMENTS; stdin of the verb on stdin. The first that fails ends it.
  local index=$1 code
  shift
  printf '@begin %s\n' "$index"
  "$NODE" "$@"
  code=$?
  printf '@end %s %s\n' "$index" "$code"
  ((code == 0)) || exit "$code"
}
