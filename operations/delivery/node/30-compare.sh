# -- comparing -----------------------------------------------------------------------------------------------------------

compare_in() { # FOLDER [COUNT]: prints the place of each of `names` there whose content is not as `sums` says
  # COUNT: a file that gets the size of each that was read to its end, for `poll`
  local worker
  for ((worker = 0; worker < hashers; worker++)); do
    (
      cd -- "$1" || exit
      for ((at = worker; at < ${#names[@]}; at += hashers)); do
        printf '%s  ./%s\n' "${sums[at]}" "${names[at]}" | sha256sum --status -c - 2>/dev/null || printf '%s\n' "$at"
        [[ ! ${2-} ]] || printf '%s\n' "${sizes[at]}" >>"$2"
      done
    ) &
  done
  wait
}

tell_wrong() { # FOLDER PLACE
  local path=$1/${names[$2]} size sum
  if [[ ! -f $path ]]; then
    result wrong "${names[$2]}: missing"
  elif size=$(stat -c %s -- "$path") && [[ $size != "${sizes[$2]}" ]]; then
    ((size < sizes[$2])) && result wrong "${names[$2]}: truncated: want ${sizes[$2]} bytes, found $size" \
      || result wrong "${names[$2]}: too long: want ${sizes[$2]} bytes, found $size"
  else
    sum=$(sha256sum -- "$path")
    result wrong "${names[$2]}: changed: want sha256 ${sums[$2]}, found ${sum%% *}"
  fi
}

listing_of() {
  find "$1/" -mindepth 1 ! -type d -printf '%y\t%s\t%T@\t%C@\t%P\n' 2>/dev/null | sort
}

remember() { # LISTING: the content was compared while it was so
  printf '%s\n' "$path" >"$home/$key.path" && { printf '%s\n' "$digest"; [[ ! $1 ]] || printf '%s\n' "$1"; } \
    >"$home/.$key.new" && mv -fT -- "$home/.$key.new" "$home/$key.verified" || die target "cannot write in $home; is the disk full?"
}

whole() { # FOLDER: exactly the wanted names with the wanted sizes
  [[ $(find "$1/" -mindepth 1 ! -type d -printf '%y %s %P\n' | sort) == "$expected" ]]
}

# A file that was gathered is verified as long as size, times and inode are as they were when it was compared, and the node was
# not booted since: what a crash left of bytes that never reached the disk has all of these, too.
states_of() { # NAMES...: a line for each of them in $staging/files, which stands for its content
  [[ -d $staging/files ]] && cd -- "$staging/files" || return
  printf './%s\0' "$@" | xargs -0 -r stat -c "$(</proc/sys/kernel/random/boot_id) %s %.9Y %.9Z %i %n" -- 2>/dev/null
}

note_verified() { # NAMES...
  local states
  states=$(states_of "$@")
  { flock 9 && printf '%s\n' "$states" >&9; } 9>>"$staging/verified" || die target "cannot write in $staging; is the disk full?"
}

verb_recheck() { # what an earlier run gathered: `lost=PLACE` of each file that is not, or no longer, what it was to be
  local line at bad open=() good=() wanted=("${names[@]}")
  local -A known=() places=()
  renew
  rm -f -- "$home/compared"
  [[ ! -f $staging/verified ]] || while IFS= read -r line; do known["$line"]=1; done <"$staging/verified"
  for at in "${!names[@]}"; do places["./${names[at]}"]=$at; done
  while IFS= read -r line; do
    [[ ${known["$line"]-} ]] && places["./${line#* ./}"]=
  done < <(states_of "${names[@]}")
  for at in "${!wanted[@]}"; do [[ ! ${places["./${wanted[at]}"]} ]] || open+=("$at"); done
  ((${#open[@]} > 0)) || return 0
  select_only "${open[@]}"
  mapfile -t bad < <(compare_in "$staging/files" "$home/compared")
  for at in "${!names[@]}"; do
    if [[ " ${bad[*]} " == *" $at "* ]]; then
      tell_wrong "$staging/files" "$at"
      result lost "${open[at]}"
      rm -f -- "$staging/files/${names[at]}"
    else
      good+=("${names[at]}")
    fi
  done
  ((${#good[@]} == 0)) || note_verified "${good[@]}"
}

select_only() { # PLACES...: only these of names, sums and sizes
  local at some=("${names[@]}") digests=("${sums[@]}") lengths=("${sizes[@]}")
  names=() sums=() sizes=()
  for at; do names+=("${some[at]}") sums+=("${digests[at]}") sizes+=("${lengths[at]}"); done
}

unnoted() { # a file in $staging/files that is not as it was when it was compared
  local gathered
  mapfile -d '' -t gathered < <(cd -- "$staging/files" && find . -mindepth 1 ! -type d -printf '%P\0')
  states_of "${gathered[@]}" | LC_ALL=C sort | comm -23 - <(sort -- "$staging/verified") | head -n 1
}

# What lies at the place already is read once: if all is right it is remembered, else what is right is taken over by hard
# links, and only the rest must come.
verb_adopt() {
  local before bad=() at
  renew
  before=$(listing_of "$path")
  rm -f -- "$home/$key.verified" "$home/compared"
  mapfile -t bad < <(compare_in "$path" "$home/compared")
  for at in "${bad[@]}"; do tell_wrong "$path" "$at"; done
  renew
  if ((${#bad[@]} == 0)) && whole "$path"; then
    [[ $before == "$(listing_of "$path")" ]] || die target "$path was changed while it was read"
    remember "$before"
    result adopted yes
    return
  fi
  result adopted no
  [[ $staging ]] || return 0
  local kept=()
  for at in "${!names[@]}"; do
    [[ " ${bad[*]} " != *" $at "* ]] || continue
    mkdir -p -- "$staging/files/$(dirname -- "./${names[at]}")"
    ln -f -- "$path/${names[at]}" "$staging/files/${names[at]}" 2>/dev/null \
      && kept+=("${names[at]}") && printf 'kept=%s\n' "$at"
  done
  ((${#kept[@]} == 0)) || note_verified "${kept[@]}"
}

