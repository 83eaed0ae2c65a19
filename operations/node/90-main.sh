declare -A VERBS=( # verb -> what it takes; a word in brackets may be left out
  [stage]="SERVICE ID" [switch]="SERVICE ID SECONDS RUN" [activate]="SERVICE ID SECONDS RUN" [confirm]="SERVICE ID" [verified]="SERVICE ID"
  [undo]="SERVICE [REASON]" [undo-due]="SERVICE" [heartbeat]="SERVICE" [follow]="SERVICE"
  [boot-undo]=""
  [start]="SERVICE" [stop]="SERVICE" [drop]="SERVICE"
  [lock]="HOLDER RUN SECONDS" [renew]="RUN SECONDS" [unlock]="RUN" [wait-health]="PORT [HOST]" [wait-gone]="PORT HOST"
  [measured]="SERVICE"
)
declare -A WORDS=( # what each of these words must look like
  [SERVICE]='^[a-z][a-z0-9-]{0,40}$' [ID]='^[0-9a-f]{16}$' [SECONDS]='^[1-9][0-9]{0,6}$' [PORT]='^[1-9][0-9]{0,4}$'
  [RUN]='^[A-Za-z0-9._-]{1,64}$' [HOLDER]='^[ -~]{1,200}$' [HOST]='^[A-Za-z0-9.:_-]{1,253}$' [REASON]=''
)

wrong_call() { # TEXT
  result error "$1"
  printf 'usage: node VERB ...\n' >&2
  exit 2
}

check_call() { # VERB ARGUMENTS
  local verb=$1 word
  [[ $verb && ${VERBS[$verb]+known} ]] || wrong_call "want one of ${!VERBS[*]}, found '$verb'"
  shift
  for word in ${VERBS[$verb]}; do
    if (($# == 0)); then
      [[ $word == \[* ]] || wrong_call "$verb: want ${VERBS[$verb]}, found no $word"
      return
    fi
    word=${word//[\[\]]/}
    [[ $1 =~ ${WORDS[$word]} ]] || wrong_call "$verb: want $word to match ${WORDS[$word]}, found '$1'"
    shift
  done
  (($# == 0)) || wrong_call "$verb: want ${VERBS[$verb]}, found also '$1'"
  [[ $EUID == 0 || $verb == wait-* ]] || die "$verb must run as root, found user $EUID"
}

main() { # [holding RUN] VERB ARGUMENTS: with `holding`, only while the lock of this node is that run's
  if [[ ${1-} == holding ]]; then
    [[ ${2-} =~ ${WORDS[RUN]} ]] || wrong_call "holding: want RUN to match ${WORDS[RUN]}, found '${2-}'"
    check_call "${3-}" "${@:4}"
    require_lock "$2"
    shift 2
  else
    check_call "${1-}" "${@:2}"
  fi
  "verb_${1//-/_}" "${@:2}"
}

main "$@"
exit
