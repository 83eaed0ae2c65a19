# -- arriving ------------------------------------------------------------------------------------------------------------

verb_pull() { # from another node, by rsync; from a URL, by curl. What is there of a file from a cut is gone on with.
  local again
  renew
  mkdir -p -- "$staging/parts" "$staging/files" || die target "cannot write in $staging"
  for again in 1 2; do
    "arrive_$how"
    take_over && return
    ((again == 1)) && [[ $LEFT ]] || break # a part from an earlier run was wrong: once more, from its beginning
  done
  die content "${WRONG[0]}"
}

arrive_rsync() {
  LEFT=
  for at in "${!names[@]}"; do [[ ! -e $staging/parts/${names[at]} ]] || LEFT=1; done
  export RSYNC_PASSWORD=$secret
  guarded 20 rsync --files-from=<(printf './%s\n' "${names[@]}") --inplace --append --times --timeout=20 --contimeout=8 \
    ${rate:+"--bwlimit=$rate"} -- "rsync://fleet@$peer:$port/$key/" "$staging/parts/"
  explain_rsync $?
}

explain_rsync() { # CODE
  (($1 == 0)) && return
  [[ $SAID == *'no byte arrived'* ]] && die source "$(grep 'no byte arrived' <<<"$SAID" | head -n 1)"
  [[ $SAID == *'No space left'* || $SAID == *'Disk quota'* ]] && die target "the disk is full: $(last_said)"
  case $1 in
    20 | 143) die target "the transfer was ended: this run no longer holds the node" ;;
    11 | 13 | 14 | 22 | 127) die target "rsync ended with $1: $(last_said)" ;;
    *) die source "rsync ended with $1: $(last_said)" ;;
  esac
}

last_said() { local line; line=$(grep -v '^$' <<<"$SAID" | head -n 2 | tr '\n' ' '); printf '%s' "${line:0:300}"; }

arrive_curl() {
  local had=-1 code
  LEFT=
  # A connection that ends early is gone on with, from where it ended, as long as it brings something.
  while fetch_missing; code=$?; ((code == 18 || code == 56)) && (($(had_bytes) > had)); do had=$(had_bytes); done
  case $code in
    0) ;;
    33 | 36) drop_parts # no ranges there: from the beginning
      die source "curl: $(last_said)" ;;
    22) [[ $SAID != *' 416'* ]] || drop_parts # what is there is longer than what the server has
      die source "curl: $(last_said)" ;;
    23) die target "curl cannot write; is the disk full? $(last_said)" ;;
    143) die target "the transfer was ended: this run no longer holds the node" ;;
    153) drop_parts # SIGXFSZ
      die content "more bytes came than the manifest says; it was ended" ;;
    *) die source "curl: $(last_said)" ;;
  esac
}

fetch_missing() { # what of `names` is not there in its length
  local at config= size most=0
  for at in "${!names[@]}"; do
    size=$(stat -c %s -- "$staging/parts/${names[at]}" 2>/dev/null)
    ((most >= sizes[at])) || most=${sizes[at]}
    [[ ! $size ]] || LEFT=1
    [[ $size == "${sizes[at]}" ]] && continue
    [[ ! $size ]] || ((size < sizes[at])) || rm -f -- "$staging/parts/${names[at]}"
    config+="url = \"${urls[at]}\""$'\n'"output = \"$staging/parts/${names[at]//\"/\\\"}\""$'\n'
  done
  [[ $config ]] || return 0
  guarded 0 run_curl "$config" "$((most / 1024 + 1))"
}

run_curl() { # CONFIG LIMIT_KIB: as a process of its own
  # A server that goes on and on must not fill the disk: no file becomes larger than the largest that is wanted. A long
  # here-string would be such a file too, and no argv or variable of a program is long enough for thousands of names.
  ulimit -f "$2"
  exec curl --config <(printf %s "$1") --globoff --continue-at - --create-dirs --fail --fail-early --location --silent \
    --show-error --proto =http,https --proto-redir =http,https --connect-timeout 15 --speed-limit 1024 --speed-time 30 \
    --retry 2 ${rate:+--limit-rate "${rate}K"}
}

had_bytes() { # of `names` that arrived so far
  local at sum=0
  for at in "${!names[@]}"; do ((sum += $(stat -c %s -- "$staging/parts/${names[at]}" 2>/dev/null || echo 0))); done
  printf %s "$sum"
}

drop_parts() { local at; for at in "${!names[@]}"; do rm -f -- "$staging/parts/${names[at]}"; done; }

verb_ask_urls() { # what a server says of each file, before anything moves
  local at config=
  for at in "${!urls[@]}"; do config+="url = \"${urls[at]}\""$'\n''output = /dev/null'$'\n'; done
  curl --config - --globoff --head --location --silent --proto =http,https --proto-redir =http,https --connect-timeout 15 \
    --max-time 120 --dump-header - --write-out 'answer %{urlnum} %{http_code} %{content_type}\t%{errormsg}\n' <<<"$config" 2>/dev/null
  return 0
}

verb_received() { # the controller has pushed into parts/
  renew
  take_over || die content "${WRONG[0]}"
}

take_over() { # compare what arrived, and move what is right to files/, from where it is served; false: WRONG
  local at bad moved=()
  mapfile -t bad < <(compare_in "$staging/parts")
  WRONG=()
  for at in "${bad[@]}"; do
    WRONG+=("$(tell_wrong "$staging/parts" "$at")")
    WRONG[-1]=${WRONG[-1]#wrong=}
    rm -f -- "$staging/parts/${names[at]}"
  done
  for at in "${!names[@]}"; do
    [[ " ${bad[*]} " != *" $at "* ]] || continue
    [[ ${names[at]} != */* ]] || mkdir -p -- "$staging/files/${names[at]%/*}"
    mv -fT -- "$staging/parts/${names[at]}" "$staging/files/${names[at]}" \
      || die target "cannot move ${names[at]} in $staging; is the disk full?"
    moved+=("${names[at]}")
  done
  ((${#moved[@]} == 0)) || note_verified "${moved[@]}"
  ((${#bad[@]} == 0)) || return 1
  result arrived "${#names[@]}"
}

