# What each engine of ours reports of itself, asked on the node: `report SERVICE PATH`, base64 of the answer, `exit N`. Of
# /metrics only the lines that are read. A key is taken from the engine's own environment and stays here.
section_reports() {
    local service path
    for service in "${!port_of[@]}"; do
        for path in /v1/models /version /metrics; do
            printf 'report %s %s\n' "$service" "$path"
            ask_engine "$service" "$path" 2>/dev/null
            printf '\nexit %d\n' "$?"
        done
    done
}

ask_engine() { # SERVICE PATH
    local host=${host_of[$1]-} port=${port_of[$1]} key=${key_of[$1]-}
    case $host in '' | 0.0.0.0 | localhost) host=127.0.0.1 ;; ::) host=::1 ;; esac
    [[ $port =~ ^[0-9]{1,5}$ ]] || return
    { exec 3<>"/dev/tcp/$host/$port"; } 2>/dev/null || return
    printf 'GET %s HTTP/1.0\r\nHost: %s:%s\r\n%s\r\n' "$2" "$host" "$port" \
        "${key:+Authorization: Bearer $key$'\r\n'}" >&3
    if [[ $2 == /metrics ]]; then
        grep -a -e '^HTTP/' -e '^vllm:cache_config_info' <&3 | base64 -w0
    else
        head -c 65536 <&3 | base64 -w0
    fi
    exec 3<&-
}
