# Beginning of the one script that the floors and Ansible's one raw task carry: ground.sh, the facts, change.sh. It is
# written to be fast: the unit is enabled on the files alone, nothing is asked twice.
# Before this: service, unit_text, env_text and dry, each quoted once.
set -u
export LC_ALL=C
unit=vllm-$service.service
changed=0
reload=

fail() {
  printf 'failed=%s\n' "$1"
  exit 1
}

put() { # PATH MODE TEXT: appears by rename; in a dry run the difference is shown
  local old= new
  [[ -f $1 ]] && { IFS= read -r -d '' old <"$1" || true; }
  [[ $old == "$3" ]] && return
  changed=1
  [[ $1 == /etc/* ]] && reload=1
  if [[ $dry == 1 ]]; then
    printf %s "$3" | diff -u --label "$1" --label "$1" -- "$([[ $old ]] && printf %s "$1" || printf /dev/null)" -
    return 0
  fi
  mkdir -p -- "${1%/*}"
  new=$(mktemp -- "${1%/*}/.new.XXXXXX") && printf %s "$3" >"$new" && chmod "$2" "$new" && mv -fT -- "$new" "$1" \
    || fail "cannot write $1"
}
