# Frames. Every section stands between two lines that carry this run's random nonce, and the last line says `done`: what a
# node prints can neither end a section nor forge one, and an output that was cut off is known as such.
# Before this file: the variables of the request, each quoted once. Nothing on the node is changed by any section.
export LC_ALL=C
shopt -s nullglob

frame() {
    printf '==%s %s begin\n' "$nonce" "$1"
    "section_$1" 2>&1
    printf '\n==%s %s end rc=%d\n' "$nonce" "$1" "$?"
}

# One sleep for the whole probe ends what hangs; `timeout` would cost a process for each command.
expired=
watch() {
    trap 'expired=1' USR1
    (
        sleep "$deadline_s" &
        trap "kill $!" TERM
        wait "$!" && kill -USR1 "$$"
    ) </dev/null >/dev/null 2>&1 &
    watchdog=$!
    disown "$watchdog"
}

# run COMMAND...: its output and exit code; 124 where the time was over first.
run() {
    local code
    if [[ $expired ]]; then
        printf 'not started: the time of the probe was over\n'
        return 124
    fi
    "$@" <&0 &
    child=$!
    wait "$child"
    code=$?
    if [[ $expired ]] && kill -KILL "$child" 2>/dev/null; then
        disown "$child" # it may never be gone, and bash would report its end
        return 124
    fi
    return "$code"
}

# first_line FILE: its first line, in `line`; false where the file cannot be read.
first_line() {
    line=
    { IFS= read -r line <"$1" || [[ $line ]]; } 2>/dev/null
}

# stuck_at PATH: why nothing can be written there, neither now nor after its folders were made.
stuck_at() {
    local at=$1
    while [[ $at && ! -e $at && ! -L $at ]]; do at=${at%/*}; done
    at=${at:-/}
    if [[ $at != "$1" && ! -d $at ]]; then
        printf 'stuck none\t%s\t%s\n' "$at" "$1"
    elif [[ ! -w $at ]]; then
        printf 'stuck readonly\t%s\t%s\n' "$at" "$1"
    fi
}
