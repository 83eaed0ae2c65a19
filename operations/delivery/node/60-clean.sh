# -- what deliveries brought and nothing may need any more ---------------------------------------------------------------

# `brought=KIB PATH`, `loaded=NAME@DIGEST`, `used=PATH WHO`, `plan=SERVICE/ID BASE64`, and where a path of that plan or of what
# is declared leads to, `leads=SERVICE/ID PATH` or `leads=declared PATH`: judged by the controller.
verb_leftovers() {
  local file inode user name
  for file in "$home"/*.brought; do
    [[ -f $file ]] && IFS= read -r inode <"$file" && IFS= read -r path <"${file%.brought}.path" || continue
    [[ -d $path && ! -L $path && $(stat -c %i -- "$path") == "$inode" ]] || continue
    printf 'brought=%s %s\n' "$(du -sk -- "$path" | cut -f 1)" "$path"
    suspects+=("$path")
  done
  for file in "$home"/*.image; do
    [[ -f $file ]] && IFS= read -r reference <"$file" && image_there && printf 'loaded=%s\n' "$reference"
  done
  for path in "${suspects[@]}"; do
    user=$(user_of "$path")
    [[ ! $user ]] || printf 'used=%s\t%s\n' "$path" "$user"
  done
  for file in "$state"/*/releases/*/plan.json; do
    [[ -f $file ]] || continue
    name=$(cut -d / -f 1,3 <<<"${file#"$state/"}")
    printf 'plan=%s %s\n' "$name" "$(base64 -w0 -- "$file")"
    grep -oE '"/[^":]+' -- "$file" | cut -c 2- | tr '\n' '\0' | xargs -0 -r realpath -qe -- 2>/dev/null | sed "s|^|leads=$name |"
  done
  ((${#declared_paths[@]} == 0)) || realpath -qe -- "${declared_paths[@]}" 2>/dev/null | sed 's/^/leads=declared /'
  return 0
}

# Whoever has something in PATH open, or has it mounted, as the container of an engine does that somebody started by hand.
user_of() {
  local target device below found
  read -r target device < <(findmnt --noheadings --raw --output TARGET,MAJ:MIN --target "$1")
  below=${1#"${target%/}"}
  found=$(awk -v device="$device" -v below="$below" '
    $3 == device && $4 != "/" && (index($4 "/", below "/") == 1 || index(below "/", $4 "/") == 1) { print FILENAME; exit }
    ' /proc/[0-9]*/mountinfo 2>/dev/null)
  [[ $found ]] || found=$(find /proc/[0-9]*/fd /proc/[0-9]*/cwd -lname "$1/*" -print -quit 2>/dev/null)
  [[ $found ]] || found=$(grep -lsF -- " $1/" /proc/[0-9]*/maps | head -n 1)
  [[ $found ]] || return 0
  found=${found#/proc/} found=${found%%/*}
  printf 'process %s (%s)' "$found" "$(cat "/proc/$found/comm" 2>/dev/null)"
}

take_away() { # PATH: first it is nobody's any more, then it is gone; what a cut leaves is known as left
  local gone=${1%/*}/.${1##*/}.replaced.$EPOCHSECONDS
  [[ ! $(reader_of "$1") && ! $(user_of "$1") ]] || die target "$1 is used; nothing was taken away"
  rm -f -- "$home/$2.verified" "$home/$2.brought"
  mv -T -- "$1" "$gone" && rm -rf -- "$gone" && rm -f -- "$home/$2.path" && result cleaned "$1"
}

verb_clean() { # what was found by a look and judged by the controller. Prints what went.
  local one file said known=()
  renew
  for file in "$home"/*.path; do
    [[ -f $file ]] && IFS= read -r path <"$file" || continue
    key=${file##*/} key=${key%.path}
    is_remembered && known+=("$key")
  done
  for one in "${doomed[@]}"; do
    case ${one##*/} in
      .*.delivery | .*.replaced.*) rm -rf -- "$one" && result cleaned "$one" ;;
    esac
  done
  for key in "${!folders[@]}"; do take_away "${folders[key]}" "${folder_keys[key]}"; done
  for reference in "${unneeded[@]}"; do # without force: what a container was made of stays
    said=$("$runtime_program" image rm -- "$reference" 2>&1) || die target "$reference cannot be removed: ${said:0:300}"
    grep -lsxF -- "$reference" "$home"/*.image | while IFS= read -r file; do rm -f -- "$file"; done
    result cleaned "$reference"
  done
  for key in "${known[@]}"; do # a file that was kept by a hard link got a new time as its other name went
    IFS= read -r path <"$home/$key.path" && IFS= read -r digest <"$home/$key.verified" && remember "$(listing_of "$path")"
  done
  return 0
}
