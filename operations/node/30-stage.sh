# Staging: a release's files come to lie on the node, whole and checked, while the old release serves.
#
# The stream: one line `NAME MODE SHA256 BYTES` a file, an empty line, the files' bytes one after the other, and `end`.

stage_write() { # FOLDER STREAM: sets SUMS and MODES (as sha256sum and stat print them) and NAMES
  local folder=$1 stream=$2 header line name mode sum bytes offset=0 mask
  header=${stream%%$'\n\n'*}
  stream=${stream:${#header}+2}
  SUMS= MODES= NAMES=()
  while read -r name mode sum bytes; do
    case $name:$mode in
      unit:600 | unit:644 | env:600 | secrets.env:600 | plan.json:600 | plan.json:644 | patches.json:600) ;;
      patched-[0-9]:644 | patched-[0-9][0-9]:644) ;; # files of the engine, which the container reads
      *) die "stage: want unit, env, secrets.env (600), patches.json, patched-N or plan.json, found $name with mode $mode" ;;
    esac
    [[ $bytes =~ ^[0-9]{1,7}$ ]] || die "stage: want the size of $name in bytes, found $bytes"
    printf -v mask %04o $((0666 & ~8#$mode))
    umask "$mask"
    printf %s "${stream:offset:bytes}" >"$folder/$name" || die "cannot write $folder/$name; is the disk full?"
    umask 077
    SUMS+="$sum  $name"$'\n'
    MODES+="$mode $name"$'\n'
    NAMES+=("$name")
    offset=$((offset + bytes))
  done <<<"$header"
  [[ ${stream:offset} == end ]] || die "stage: the stream ended before its last line; nothing was staged"
}

# systemd-analyze answers 0 for an unknown key (or 1, by its version), so what it says of this unit is a failure. What
# it says of other units is told and no more: they are the site's. Two keys are left out, because systemd before 254
# does not know them and ignores them, which is what the unit counts on.
stage_verify() { # SERVICE FOLDER
  local said line ours bad= code
  unit_of "$1" ours
  type -P systemd-analyze >/dev/null || { note "no systemd-analyze here: the unit was not verified"; return; }
  cmp -s -- "$2/unit" "$UNITS/$ours" && return
  umask 022 # systemd remarks on a unit that not everyone can read
  sed '/^RestartSteps=/d; /^RestartMaxDelaySec=/d' -- "$2/unit" >"$2/$ours" || die "cannot write $2; is the disk full?"
  umask 077
  said=$(systemd-analyze verify --man=no --recursive-errors=no "$2/$ours" 2>&1)
  code=$?
  rm -f -- "$2/$ours"
  while IFS= read -r line; do
    [[ $line ]] && note "systemd-analyze: $line"
    [[ $line == *"$ours"* ]] && bad=${bad:-$line}
  done <<<"$said"
  [[ ! $bad ]] && ((code == 0)) \
    || die "systemd-analyze refuses the unit of $1: ${bad:-exit code $code}; nothing was staged"
}

# A complete folder whose content differs is put right file by file: it may be current, so it is never away.
stage_repair() { # NEW OLD
  local name
  for name in env secrets.env unit patches.json patched-{0..99}; do
    if [[ -f $1/$name ]]; then
      mv -fT -- "$1/$name" "$2/$name" || return
    elif [[ -e $2/$name ]]; then
      rm -f -- "$2/$name"
    fi
  done
  mv -fT -- "$1/plan.json" "$2/plan.json"
}

stage_same() { # FOLDER: have the files there the wanted content and mode, and is there no secret that is not wanted?
  [[ -f $1/secrets.env && " ${NAMES[*]} " != *" secrets.env "* ]] && return 1
  (
    cd -- "$1" && sha256sum --status -c <<<"${SUMS%$'\n'}"
  ) 2>/dev/null && [[ $(cd -- "$1" && stat -c '%a %n' -- "${NAMES[@]}") == "${MODES%$'\n'}" ]]
}

verb_stage() { # SERVICE ID; the stream on stdin
  local stream folder=$STATE/$1/releases changed=yes
  stream=$(cat)
  [[ -d $folder ]] || mkdir -p -- "$folder" || die "cannot make $folder; is the disk full?"
  NEW=$(mktemp -d -- "$folder/.$2.XXXXXX") || die "cannot make a folder in $folder; is the disk full?"
  trap 'rm -rf -- "$NEW"' EXIT
  stage_write "$NEW" "$stream"
  [[ " ${NAMES[*]} " == *" unit "* && ${NAMES[-1]} == plan.json ]] \
    || die "stage: want unit and, last, plan.json; found ${NAMES[*]}"
  (cd -- "$NEW" && sha256sum --quiet -c <<<"${SUMS%$'\n'}") || die "stage: what arrived for $1 $2 is not what was sent"
  stage_verify "$1" "$NEW"
  service_lock "$1"
  if complete "$1" "$2" && stage_same "$folder/$2"; then
    changed=no
  elif complete "$1" "$2"; then
    note "the files of $2 were changed by someone: put right"
    stage_repair "$NEW" "$folder/$2" || die "cannot put the files of $folder/$2 right"
  else
    sync -- "${NAMES[@]/#/$NEW/}" || die "cannot write $NEW; is the disk full?"
    [[ ! -e $folder/$2 ]] || rm -rf -- "${folder:?}/$2"
    mv -T -- "$NEW" "$folder/$2" || die "cannot make $folder/$2"
    trap - EXIT
  fi
  result staged "$2"
  result changed "$changed"
}
