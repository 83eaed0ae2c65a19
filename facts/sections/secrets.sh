# `SERVICE NAME HEX` for each secret of a current release: sha256 of the run's random key and the value. Values stay here.
section_secrets() {
    local name file text
    [[ $secret_key ]] || return 0
    for name in "${!currents[@]}"; do
        file=$state/$name/releases/${currents[$name]}/secrets.env
        [[ -e $file ]] || continue
        text=
        IFS= read -r -d '' text <"$file"
        secret_lines "$name" "$text" || printf 'unreadable %s\n' "$name"
    done
}

# The values as systemd reads them: double quotes, a backslash before " \ $ and `, newlines as they are.
secret_lines() {
    local rest=$2 name raw value
    while [[ $rest =~ ^([A-Za-z_][A-Za-z0-9_]*)=\"(([^\"\\]|\\.)*)\"$'\n' ]]; do
        name=${BASH_REMATCH[1]} raw=${BASH_REMATCH[2]} value=
        rest=${rest:${#BASH_REMATCH[0]}}
        while [[ $raw == *\\* ]]; do
            value+=${raw%%\\*}
            raw=${raw#*\\}
            value+=${raw:0:1}
            raw=${raw:1}
        done
        printf '%s %s ' "$1" "$name"
        printf '%s' "$secret_key$value$raw" | sha256sum
    done
    [[ -z $rest ]]
}
