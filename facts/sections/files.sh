# Files of ours: MODE USER:GROUP SIZE TYPE PATH a line, an empty line, then base64 of all contents, each followed by NUL.
# secrets.env is told of, never shown.
section_files() {
    local name file files=()
    for name in "${!currents[@]}"; do
        for file in unit env plan.json proof.json verify.json secrets.env patches.json; do
            add_file "$state/$name/releases/${currents[$name]}/$file"
        done
    done
    for name in "${units[@]}"; do add_file "$unit_folder/$name"; done
    for file in "$unit_folder"/vllm-fleet-* "$node_script"; do add_file "$file"; done
    ((${#files[@]})) || return 0
    run stat -c '%a %U:%G %s %F %n' -- "${files[@]}" || return
    printf '\n'
    contents | base64 -w0
}

add_file() {
    [[ (-e $1 || -L $1) && $1 =~ ^[A-Za-z0-9@._/-]+$ ]] && files+=("$1")
}

# Contents in the order of `files`; of a link or a secret nothing, of a large file the first 64 KiB and one byte.
contents() {
    local file text
    for file in "${files[@]}"; do
        text=
        [[ ! -f $file || -L $file || $file == */secrets.env ]] || IFS= read -r -N 65537 text <"$file"
        printf '%s\0' "$text"
    done
}
