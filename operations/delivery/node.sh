# A delivery's part on a node. Sent over stdin with each call, behind the values of the call, each quoted once: nothing is
# installed, nothing of it stands in an argv. `key=value` lines are results; `blame=` says whose fault an `error=` is:
# target (this node), source (who was asked), content (what arrived).
set -u
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
umask 022
home=$state/.delivery
run_folder=/run/vllm-fleet-delivery
unit=vllm-fleet-delivery.service

result() { printf '%s=%s\n' "$1" "${2//[^ -~]/?}"; }

die() { # BLAME TEXT
  result blame "$1"
  result error "$2"
  exit 1
}

# -- the lease: who delivers here now. It ends by itself where the controller dies, and with it all that listens. --------

read_lease() { # sets L_RUN L_EXPIRES L_HOLDER
  L_RUN= L_EXPIRES=0 L_HOLDER=
  [[ ! -f $home/lease ]] || read -r L_RUN L_EXPIRES L_HOLDER <"$home/lease"
  [[ $L_EXPIRES =~ ^[0-9]+$ ]] || L_EXPIRES=0
}

write_lease() {
  local new=$home/.lease.$$ # several verbs renew it at the same time
  printf '%s %s %s\n' "$run_id" "$((EPOCHSECONDS + lease_s))" "$holder" >"$new" \
    && mv -fT -- "$new" "$home/lease" || { rm -f -- "$new"; die target "cannot write $home/lease; is the disk full?"; }
}

renew() {
  read_lease
  [[ $L_RUN == "$run_id" ]] || die target "another delivery took this node over: ${L_HOLDER:-nobody knows who}"
  write_lease
}

take_lease() {
  local guard waited=0
  mkdir -p -m 700 -- "$home" || die target "cannot make $home"
  exec {guard}>>"$home/.guard" && flock -w 20 "$guard" || die target "cannot lock $home/.guard"
  read_lease
  while [[ $L_RUN && $L_RUN != "$run_id" ]] && ((EPOCHSECONDS < L_EXPIRES)); do
    ((waited++ < lease_s + 10 && L_EXPIRES - EPOCHSECONDS <= lease_s + 10)) \
      || die target "another delivery runs here: $L_HOLDER; wait for its end, at most $((L_EXPIRES - EPOCHSECONDS)) s after it died"
    sleep 1
    read_lease
  done
  write_lease
  exec {guard}>&-
  ((waited == 0)) || result waited "$waited" # what was looked at before may be another by now
}

# Bytes that arrived so far: parts grow as they come.
arrived() { find "$staging/parts" -type f -printf '%s\n' 2>/dev/null | awk '{ sum += $1 } END { printf "%.0f", sum }'; }

# rsync's own --timeout is of no use against a peer whose network is gone: what it still writes to its socket counts as
# life. So what counts here is what arrives.
stalled() { # SECONDS: has nothing arrived for so long? Remembers in STALL_BYTES and STALL_SINCE.
  local now
  now=$(arrived)
  if [[ $now != "$STALL_BYTES" ]]; then
    STALL_BYTES=$now STALL_SINCE=$EPOCHSECONDS
  fi
  ((EPOCHSECONDS - STALL_SINCE >= $1))
}

watch_over() { # PID LOG STALL_S (0: as long as it likes)
  STALL_BYTES= STALL_SINCE=$EPOCHSECONDS
  while sleep 5; do
    read_lease
    if [[ $L_RUN != "$run_id" ]] || ((EPOCHSECONDS >= L_EXPIRES)); then
      kill "$1"
    elif (($3 > 0)) && stalled "$3"; then
      printf 'no byte arrived for %d s\n' "$3" >>"$2"
      pkill -P "$1"
      kill "$1"
    fi
  done
}

# A mover that outlives its controller would write where the next run writes.
guarded() { # STALL_S COMMAND...: its output in SAID, its exit code
  local log pid dog code stall_s=$1
  shift
  log=$(mktemp -p /run vllm-fleet-delivery.XXXXXX) || die target "cannot write in /run"
  "$@" >>"$log" 2>&1 & # appended, for the watch writes there too
  pid=$!
  watch_over "$pid" "$log" "$stall_s" </dev/null >/dev/null 2>&1 &
  dog=$!
  wait "$pid"
  code=$?
  kill "$dog" 2>/dev/null
  SAID=$(tail -c 2000 -- "$log")
  rm -f -- "$log"
  return "$code"
}

# -- serving others ------------------------------------------------------------------------------------------------------

serve() { # the daemon: one port, one secret of this run, folders that can only be read, only for the nodes of this run
  local at try
  systemctl stop -- "$unit" 2>/dev/null
  systemctl reset-failed -- "$unit" 2>/dev/null
  mkdir -p -m 700 -- "$run_folder/items" || die target "cannot make $run_folder"
  (umask 077 && printf 'fleet:%s\n' "$secret" >"$run_folder/secrets") || die target "cannot write $run_folder/secrets"
  {
    printf 'port = %s\n' "$port"
    [[ ! $address ]] || printf 'address = %s\n' "$address"
    printf '%s\n' 'use chroot = yes' 'read only = yes' 'list = no' 'uid = 0' 'gid = 0' 'reverse lookup = no' \
      'auth users = fleet' "secrets file = $run_folder/secrets" "lock file = $run_folder/lock" \
      "max connections = $connections" 'dont compress = *' 'refuse options = delete remove-source-files'
    [[ ! $allowed ]] || printf 'hosts allow = %s\n' "$allowed"
    for at in "${!item_keys[@]}"; do
      printf '[%s]\npath = %s/items/%s\n' "${item_keys[at]}" "$run_folder" "${item_keys[at]}"
    done
  } >"$run_folder/rsyncd.conf"
  for at in "${!item_keys[@]}"; do offer "${item_keys[at]}" "${item_served[at]}"; done
  if (exec 3<>"/dev/tcp/${address:-127.0.0.1}/$port") 2>/dev/null; then
    die target "want port $port free for serving other nodes, found something else that listens there; declare delivery.port"
  fi
  systemd-run --quiet --unit="$unit" --collect --property=NoNewPrivileges=yes --property=ProtectSystem=strict \
    --property=PrivateTmp=yes --property="ReadWritePaths=$run_folder" --property=KillMode=control-group \
    --property='CapabilityBoundingSet=CAP_SYS_CHROOT CAP_DAC_READ_SEARCH CAP_SETUID CAP_SETGID CAP_KILL' \
    -- bash -c "$watch_text" watch "$home/lease" "$run_id" "$run_folder/rsyncd.conf" </dev/null \
    || die target "systemd-run cannot start the daemon that serves other nodes"
  for ((try = 0; try < 100; try++)); do
    (exec 3<>"/dev/tcp/${address:-127.0.0.1}/$port") 2>/dev/null && return
    systemctl is-active --quiet "$unit" || break
    sleep 0.1
  done
  die target "want port $port free for serving other nodes, found: $(journalctl -q -u "$unit" -n 3 -o cat 2>/dev/null | tr '\n' ' ')"
}

watch_text='
rsync --daemon --no-detach --config="$3" & daemon=$!
trap "exit 0" TERM
while sleep 3 & wait "$!" && kill -0 "$daemon" 2>/dev/null; do
  read -r run expires rest <"$1" && [[ $run == "$2" ]] && ((EPOCHSECONDS < expires)) || break
done
kill "$daemon" 2>/dev/null
'

offer() { # KEY FOLDER: what others get under this name, from their next connection on
  ln -sfn -- "$2" "$run_folder/items/.$1.new" && mv -fT -- "$run_folder/items/.$1.new" "$run_folder/items/$1"
}

verb_offer_place() { offer "$key_served" "$path"; } # what lay there turned out to be right: others get it from there

verb_begin() {
  local at
  take_lease
  for at in "${!stagings[@]}"; do
    mkdir -p -- "${stagings[at]}/files" "${stagings[at]}/parts" || die target "cannot make ${stagings[at]}"
  done
  [[ ! $secret ]] || serve
  result begun "$run_id"
}

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
  note_verified "${good[@]}"
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
  # A server that goes on and on must not fill the disk: no file becomes larger than the largest of these (in KiB).
  CURL_CONFIG=$config guarded 0 bash -c 'ulimit -f "$2"; exec curl --config - --globoff --continue-at - --create-dirs --fail --fail-early \
    --location --silent --show-error --proto =http,https --proto-redir =http,https --connect-timeout 15 --speed-limit 1024 \
    --speed-time 30 --retry 2 ${1:+--limit-rate "$1"} <<<"$CURL_CONFIG"' curl "${rate:+${rate}K}" "$((most / 1024 + 1))"
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
