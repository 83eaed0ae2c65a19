# Beginning of what is sent to a node over stdin: small files put in place, then calls of the node script.
set -u
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
NODE=/usr/local/lib/vllm-fleet/node
RELOAD= SUMS= PATHS=() NEWS=()
umask 022

# Written beside under a fixed name: these folders are root's alone, and every writer holds the node's lock. Few
# programs are started: the umask gives the mode, and one sha256sum checks all files before the first one appears.
put() { # PATH MODE SHA256 TEXT
  local folder=${1%/*} new=${1%/*}/.${1##*/}.new mask
  [[ -d $folder ]] || mkdir -p -m 755 -- "$folder" || fail "cannot make $folder"
  [[ ! -e $new && ! -L $new ]] || rm -f -- "$new" || fail "cannot write in $folder"
  printf -v mask %04o $((0666 & ~8#$2))
  PATHS+=("$1") NEWS+=("$new") SUMS+="$3  $new"$'\n'
  umask "$mask"
  printf %s "$4" >"$new" || fail "cannot write $1; is the disk full?"
  umask 022
  (((8#$2 & 0111) == 0)) || chmod -- "$2" "$new" || fail "cannot set the mode of $1"
}

appear() { # what was put, by rename
  local at path
  sha256sum --status -c <<<"${SUMS%$'\n'}" || fail "cannot write ${PATHS[*]}; is the disk full?"
  for at in "${!PATHS[@]}"; do
    path=${PATHS[at]}
    # systemd finds a file that it never read by itself.
    [[ $path == /etc/systemd/system/* && -e $path ]] && RELOAD=1
    mv -fT -- "${NEWS[at]}" "$path" || fail "cannot put $path in place"
    printf 'put=%s\n' "$path"
  done
}

support_ready() { # the link is what `systemctl enable` makes, for a process less
  local units=/etc/systemd/system wants=/etc/systemd/system/multi-user.target.wants
  [[ -d $wants ]] || mkdir -m 755 -- "$wants" || fail "cannot make $wants"
  ln -sfn -- "$units/vllm-fleet-boot.service" "$wants/vllm-fleet-boot.service" \
    || fail "cannot enable vllm-fleet-boot.service"
  [[ ! $RELOAD ]] || systemctl daemon-reload || fail "cannot reload systemd"
}

fail() { # TEXT
  ((${#NEWS[@]} == 0)) || rm -f -- "${NEWS[@]}"
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
