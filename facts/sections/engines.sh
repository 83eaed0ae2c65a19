# What runs, for an audit: base64 of words that are each followed by NUL, where N counts the words after it.
#   process PID PARENT INNER CGROUP KIND N ARGV...   KIND: engine, client (podman run, docker run) or monitor (conmon)
#   names PID N NAME...   env PID N NAME=VALUE...   secret PID NAME HEX   mount PID SOURCE TARGET same|other HEX
#   container CID IMAGE DIGEST known|unknown N ENVNAME...   docker CID NAME REFERENCE
# Values leave the node only of variables that stand in the env file of a current release, and are no secret of it.
section_engines() {
    local file pid words kind
    told=()
    declare -gA port_of=() host_of=() key_of=()
    declare -A clients=() engines=()
    for file in /proc/[0-9]*/cmdline; do
        words=()
        { mapfile -d '' -t words <"$file"; } 2>/dev/null
        ((${#words[@]})) || continue
        kind=
        kind_of "${words[@]}"
        [[ $kind ]] || continue
        pid=${file#/proc/}
        tell_process "${pid%/cmdline}"
    done
    for pid in "${!engines[@]}"; do tell_engine "$pid" "${engines[$pid]}"; done
    [[ $runtime != docker || ! -x $runtime_program ]] || docker_containers
    printf '%s\0' "${told[@]}" end | base64 -w0
}

# kind_of WORD...: sets `kind`; empty for a process that is none of ours.
kind_of() {
    local word
    case ${1##*/} in
        podman | docker)
            for word in "${@:2:8}"; do [[ $word == run ]] && kind=client; done
            return
            ;;
        conmon) kind=monitor; return ;;
    esac
    for word in "${@:1:6}"; do
        [[ $word == vllm.entrypoints* || ${word##*/} == vllm ]] && kind=engine
    done
}

# tell_process PID, with its argv in `words` and its kind in `kind`.
tell_process() {
    local key value parent= inner= found= shown=() before= word at service
    while read -r key value; do
        case $key in
            PPid:) parent=$value ;;
            NSpid:) inner=${value##*[[:blank:]]}; [[ $value == *[[:blank:]]* ]] || inner=; break ;;
        esac
    done 2>/dev/null <"/proc/$1/status"
    cgroup_path "$1"
    for word in "${words[@]}"; do
        case $before in
            --*-key | --*-token | --*-secret | --*-password) [[ $word == --* ]] || word=*** ;;
            -e | --env) [[ $word != *=* ]] || word=${word%%=*}=*** ;;
        esac
        case $word in
            --*-key=* | --*-token=* | --*-secret=* | --*-password=*) word=${word%%=*}=*** ;;
        esac
        shown+=("$word")
        before=$word
    done
    told+=(process "$1" "$parent" "$inner" "$found" "$kind" "${#shown[@]}" "${shown[@]}")
    [[ $kind == monitor ]] && container_of
    service=
    [[ $found =~ (^|/)vllm-([a-z][a-z0-9-]*)\.service ]] && service=${BASH_REMATCH[2]}
    [[ $kind == client && $service ]] && clients[$service]="$(printf '%q ' "${words[@]}")"
    [[ $kind == engine ]] || return 0
    engines[$1]=$service
    [[ $service ]] || return 0
    for at in "${!words[@]}"; do
        case ${words[at]} in
            --port) port_of[$service]=${words[at + 1]-} ;;
            --host) host_of[$service]=${words[at + 1]-} ;;
        esac
    done
}

# The cgroup of a process, in `found`: of the v1 hierarchy name=systemd where systemd uses that one, else of v2.
cgroup_path() {
    local line
    found=
    while IFS= read -r line; do
        case $line in
            *:name=systemd:/?*) found=${line#*:name=systemd:}; break ;;
            0::*) found=${line#0::} ;;
        esac
    done 2>/dev/null <"/proc/$1/cgroup"
}

# tell_engine PID SERVICE: its variables, and what it was given of the node.
tell_engine() {
    local vars=() names=() shown=() secret line name digest
    declare -A clear=() hidden=()
    { mapfile -d '' -t vars <"/proc/$1/environ"; } 2>/dev/null
    [[ $2 ]] && own_names "$2"
    for line in "${vars[@]}"; do
        name=${line%%=*}
        names+=("$name")
        if [[ ${hidden[$name]-} ]]; then
            [[ $name == VLLM_API_KEY ]] && key_of[$2]=${line#*=}
            [[ $secret_key ]] || continue
            digest=$(printf %s "$secret_key${line#*=}" | sha256sum)
            told+=(secret "$1" "$name" "${digest%% *}")
        elif [[ ${clear[$name]-} ]]; then
            shown+=("$line")
            [[ $name == VLLM_API_KEY ]] && key_of[$2]=${line#*=}
        fi
    done
    told+=(names "$1" "${#names[@]}" "${names[@]}" env "$1" "${#shown[@]}" "${shown[@]}")
    [[ ! $2 || ! ${clients[$2]-} ]] || tell_mounts "$1" "${clients[$2]}"
}

# own_names SERVICE: names of the current release's env file in `clear`, of its secrets in `hidden`.
own_names() {
    local folder=$state/$1/releases/${currents[$1]-} line
    while IFS= read -r line; do
        [[ $line =~ ^([A-Za-z_][A-Za-z0-9_]*)= ]] && clear[${BASH_REMATCH[1]}]=1
    done 2>/dev/null <"$folder/env"
    while IFS= read -r line; do
        [[ $line =~ ^([A-Za-z_][A-Za-z0-9_]*)= ]] && hidden[${BASH_REMATCH[1]}]=1
    done 2>/dev/null <"$folder/secrets.env"
}

# tell_mounts PID QUOTED: of each --volume of the command: is what the process sees what lies there now?
tell_mounts() {
    local at source target same digest
    local -a command
    eval "command=($2)" # our own %q of the words
    for at in "${!command[@]}"; do
        [[ ${command[at]} == --volume || ${command[at]} == -v ]] || continue
        IFS=: read -r source target _ <<<"${command[at + 1]-}"
        same=other digest=
        [[ $source -ef /proc/$1/root$target ]] && same=same
        if [[ -f /proc/$1/root$target ]]; then
            digest=$(sha256sum <"/proc/$1/root$target")
        fi
        told+=(mount "$1" "$source" "$target" "$same" "${digest%% *}")
    done
}

# container_of, of a conmon in `words`: the image of its container by podman's own records, `unknown` where they have none.
container_of() {
    local at id= file text image= record digest= known=unknown names=() rest
    for at in "${!words[@]}"; do [[ ${words[at]} == -c ]] && id=${words[at + 1]-}; done
    [[ $id =~ ^[0-9a-f]{64}$ ]] || return 0
    for file in "${stores[0]-}"/*-containers/{volatile-,}containers.json; do
        text=
        IFS= read -r -d '' text 2>/dev/null <"$file"
        [[ $text == *"{\"id\":\"$id\""* ]] || continue
        record=${text#*"{\"id\":\"$id\""}
        [[ $record =~ ^[^{}]*\"image\":\"([0-9a-f]{64})\" ]] && image=${BASH_REMATCH[1]}
    done
    for at in "${!listings[@]}"; do
        [[ $image && ${listings[at]} == *"{\"id\":\"$image\""* ]] || continue
        record=${listings[at]#*"{\"id\":\"$image\""}
        [[ $record =~ ^,\"digest\":\"(sha256:[0-9a-f]{64})\" ]] && digest=${BASH_REMATCH[1]}
        image_variables "${folders[at]}/$image"
        break
    done
    told+=(container "$id" "$image" "$digest" "$known" "${#names[@]}" "${names[@]}")
}

# image_variables FOLDER: names that the image itself sets, in `names`; `known` where its configuration was read.
image_variables() {
    local file text
    for file in "$1"/=*; do
        text=
        IFS= read -r -N 1048576 text <"$file"
        [[ $text == *'"rootfs":'* ]] || continue
        known=known
        [[ $text =~ \"Env\":\[([^]]*)\] ]] || continue
        rest=${BASH_REMATCH[1]}
        while [[ $rest =~ (^|,)\"([A-Za-z_][A-Za-z0-9_]*)= ]]; do
            names+=("${BASH_REMATCH[2]}")
            rest=${rest#*"${BASH_REMATCH[0]}"}
        done
        return
    done
}

docker_containers() {
    local id name reference
    while read -r id name reference; do
        [[ $id =~ ^[0-9a-f]{64}$ ]] && told+=(docker "$id" "$name" "$reference")
    done < <(exec "$runtime_program" ps --no-trunc --format '{{.ID}} {{.Names}} {{.Image}}' 2>/dev/null)
}
