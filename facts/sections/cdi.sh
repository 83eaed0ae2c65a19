# The CDI specifications of NVIDIA's GPUs, by which podman gives devices to a container: `spec FILE`, then the names of its
# devices, the driver's version in its libraries, and device nodes that it names and that are not there.
section_cdi() {
    local file text
    [[ $runtime == podman ]] || return 0
    for file in "$cdi_folder"/*.{json,yaml,yml} /run/cdi/*.{json,yaml,yml}; do
        [[ -e $file ]] || continue # a link to nothing
        if [[ ! -r $file || ! -f $file ]]; then
            printf 'unreadable %s\n' "$file"
        elif [[ $file == *.json ]]; then
            IFS= read -r -N 1048576 text <"$file"
            cdi_spec "$file" <<<"${text//[\{,]/$'\n'}"
        else
            cdi_spec "$file" <"$file"
        fi
    done
    return 0
}

# cdi_spec FILE: the lines of a specification on stdin; nothing is printed of one that is not about NVIDIA's GPUs.
cdi_spec() {
    local line told='' kind='' library=''
    while IFS= read -r line || [[ $line ]]; do
        case $line in
            *kind*nvidia.com/gpu*) kind=yes ;;
            *name*:*)
                [[ $line =~ [^A-Za-z]name\"?:\ *\"?([A-Za-z0-9._:-]+) ]] && told+="name ${BASH_REMATCH[1]}"$'\n'
                ;;
            *path*:*/dev/*)
                [[ $line =~ [^A-Za-z]path\"?:\ *\"?(/dev/[A-Za-z0-9/._:-]+) && ! -e ${BASH_REMATCH[1]} ]] &&
                    told+="missing ${BASH_REMATCH[1]}"$'\n'
                ;;
            *libcuda.so.*)
                [[ ! $library && $line =~ libcuda\.so\.([0-9]+\.[0-9.]*[0-9]) ]] && library=${BASH_REMATCH[1]}
                ;;
        esac
    done
    [[ $kind ]] && printf 'spec %s\n%s%s' "$1" "$told" "${library:+library $library$'\n'}"
}
