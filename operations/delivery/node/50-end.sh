# -- the end -------------------------------------------------------------------------------------------------------------

reader_of() { # PATH: a service whose running engine was started with this folder
  local plan service
  for plan in "$state"/*/current/plan.json; do
    [[ -f $plan ]] && grep -qF -e "\"$1\"" -e "\"$1:" -e "\"$1/" -- "$plan" || continue
    service=${plan#"$state/"}
    service=${service%%/*}
    systemctl is-active --quiet "vllm-$service.service" && { printf %s "$service"; return; }
  done
}

verb_place() { # the whole folder appears by a rename; what was there before stays beside it
  local reader replaced changed
  renew
  whole "$staging/files" || die target "want exactly the files of the manifest in $staging/files, found others"
  changed=$(unnoted)
  [[ ! $changed ]] || die target "${changed#* ./} in $staging/files was changed after it was compared; run again, and it is read again"
  chmod -R u=rwX,go=rX -- "$staging/files"
  sync -f -- "$staging/files"
  if [[ -e $path || -L $path ]]; then
    reader=$(reader_of "$path")
    [[ ! $reader ]] || die target "$path is read by the running engine of $reader; nothing was replaced"
    reader=$(user_of "$path")
    [[ ! $reader ]] || die target "$path is used by $reader; nothing was replaced: end that first, or deliver into another folder"
    replaced=${path%/*}/.${path##*/}.replaced.$EPOCHSECONDS
    mv -T -- "$path" "$replaced" || die target "cannot rename $path"
    result replaced "$replaced"
  fi
  mv -T -- "$staging/files" "$path" || die target "cannot rename $staging/files to $path"
  [[ ! $serving ]] || offer "$key_served" "$path"
  rm -rf -- "$staging"
  sync -f -- "$path"
  remember "$(listing_of "$path")"
  stat -c %i -- "$path" >"$home/$key.brought" # by its inode: a folder that somebody made there later is not ours
  result placed "$path"
}

# The runtime finds NAME@DIGEST only while the image has a tag of NAME, and an archive takes the tag that it carries away
# from the image that had it: so each image of a name gets a tag of its own first. Tags are cheap; a lost undo is not.
keep_named() {
  local id digest
  "$runtime_program" images --no-trunc --digests --format '{{.ID}} {{.Digest}}' -- "${reference%@*}" 2>/dev/null \
    | while read -r id digest; do
      [[ $digest != sha256:* ]] || "$runtime_program" tag "$id" "${reference%@*}:${digest:7:12}" >/dev/null 2>&1
    done
}

all_images() { "$runtime_program" images --all --quiet --no-trunc 2>/dev/null | sort -u; }

verb_load() { # the archive into the runtime; only the wanted digest counts, and what is loaded besides goes again
  local said id before found
  renew
  keep_named
  before=$(all_images)
  said=$("$runtime_program" load --quiet --input "$path/$archive_name" 2>&1 | tail -c 2000)
  id=$("$runtime_program" images --digests --no-trunc --format '{{.Digest}} {{.ID}}' 2>/dev/null \
    | while read -r one other; do [[ $one == "${reference##*@}" ]] && { printf %s "$other"; break; }; done)
  [[ ! $id ]] || "$runtime_program" tag "$id" "${reference%@*}:${reference:(-64):12}" >/dev/null 2>&1
  if ! image_there; then
    found=$(comm -13 <(printf '%s\n' "$before") <(all_images) | while IFS= read -r id; do
      "$runtime_program" image inspect --format '{{.Digest}}' -- "$id" 2>/dev/null
      "$runtime_program" image rm --force -- "$id" >/dev/null 2>&1
    done)
    die content "want ${reference##*@} in the archive of ${reference%@*}, found ${found:-$(tr '\n' ' ' <<<"$said")}; the archive is not \
that of this image: save it anew, or declare the digest that it has"
  fi
  printf '%s\n' "$reference" >"$home/$key.image" || die target "cannot write in $home; is the disk full?"
  result loaded "$reference"
}

image_there() { "$runtime_program" image inspect --format x -- "$reference" >/dev/null 2>&1; }

verb_poll() { # bytes that are there of each item, and the lease once more
  local at
  renew
  for at in "${!stagings[@]}"; do
    [[ ! -d ${stagings[at]} ]] || printf 'bytes=%s %s\n' "$at" "$(du -sb -- "${stagings[at]}" 2>/dev/null | cut -f 1)"
  done
  [[ ! -f $home/compared ]] || result compared "$(awk '{ sum += $1 } END { printf "%.0f", sum }' "$home/compared")"
}

verb_end() {
  read_lease
  [[ $L_RUN == "$run_id" ]] || return 0
  systemctl stop -- "$unit" 2>/dev/null
  rm -rf -- "$run_folder"
  [[ ! $archives ]] || forget_archives
  for at in "${!stagings[@]}"; do
    rmdir -- "${stagings[at]}/files" "${stagings[at]}/parts" "${stagings[at]}" 2>/dev/null
  done
  rm -rf -- "$home/compared" "$home/lease" "$home"/.lease.* # last: who waits for it begins at once
  result ended "$run_id"
}

forget_archives() { # they are loaded, or are no use: nothing of them stays, and no record
  local file
  rm -rf -- "$archives"
  for file in "$home"/*.path; do
    [[ -f $file ]] && IFS= read -r path <"$file" && [[ $path == "$archives"/* ]] || continue
    rm -f -- "$file" "${file%.path}.verified" "${file%.path}.brought"
  done
}

is_remembered() { # sets `digest`: the folder `path` is as it was when it was compared
  [[ -d $path ]] && IFS= read -r digest <"$home/$key.verified" \
    && { printf '%s\n' "$digest"; listing_of "$path"; } | cmp -s - "$home/$key.verified"
}

