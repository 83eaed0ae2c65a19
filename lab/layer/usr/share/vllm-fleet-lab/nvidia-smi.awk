# awk -f nvidia-smi.awk -v mode=MODE FAULTS GPUS.CSV FILE
# Prints what nvidia-smi would: MODE is query, list, table, topo or nvlink; FILE is the recording of that command.
# A message of a failed GPU goes to standard output and the exit code is 15, as the real tool does.

BEGIN { FS = ", "; gpus = 0; ALIAS["gpu_name"] = "name"; ALIAS["gpu_uuid"] = "uuid"; ALIAS["gpu_bus_id"] = "pci.bus_id"; ALIAS["gpu_serial"] = "serial" }

FILENAME ~ /\/faults$/ {
    split($1, word, ":")
    if (word[1] == "nvlink-missing") { split(word[2], end, "-"); cut[end[1], end[2]] = cut[end[2], end[1]] = 1; bare[end[1]] = bare[end[2]] = 1 }
    else fault[word[1], word[2]] = 1
    next
}

FILENAME ~ /\/gpus\.csv$/ {
    if (FNR == 1) {
        for (i = 1; i <= NF; i++) { title[i] = $i; name = $i; unit = ""; if (match(name, / \[/)) { unit = substr(name, RSTART); name = substr(name, 1, RSTART - 1) } column[name] = i; units[i] = unit }
        next
    }
    for (i = 1; i <= NF; i++) value[gpus, i] = $i
    afflict(gpus)
    gpus++
    next
}

# The file of the command itself, after faults and GPUs are known.
FNR == 1 && first_of_gpus_lost() >= 0 && mode != "query" {
    print lost_message(first_of_gpus_lost())
    failed = 1
    exit
}
mode == "topo" { matrix_line(); next }
mode == "nvlink" { nvlink_line(); next }
/^CUDA Version/ { sub(/^[^:]*: /, ""); cuda = $0 }

END {
    if (failed) exit 15
    if (mode == "query") exit query()
    if (mode == "list") for (g = 0; g < gpus; g++) printf "GPU %d: %s (UUID: %s)\n", g, get(g, "name"), get(g, "uuid")
    if (mode == "table") table()
}

function get(g, name) { return value[g, column[name]] }
function put(g, name, what) { if (name in column) value[g, column[name]] = what }

function afflict(g,    i, word, live) {
    if ((("ecc", g) in fault)) {
        put(g, "ecc.errors.uncorrected.volatile.total", 3); put(g, "ecc.errors.uncorrected.volatile.dram", 3)
        put(g, "ecc.errors.uncorrected.aggregate.total", 3); put(g, "remapped_rows.uncorrectable", 1)
        put(g, "remapped_rows.failure", "Yes")
    }
    if ((("mig", g) in fault)) { put(g, "mig.mode.current", "Enabled"); put(g, "mig.mode.pending", "Enabled"); put(g, "utilization.gpu", "[N/A]"); put(g, "utilization.memory", "[N/A]") }
    if ((("gpu-reset", g) in fault)) {
        live = "temperature.gpu temperature.memory utilization.gpu utilization.memory power.draw power.draw.average power.draw.instant clocks.current.graphics clocks.current.sm clocks.current.memory"
        for (i = split(live, word, " "); i > 0; i--) put(g, word[i], "[GPU requires reset]")
        put(g, "gpu_recovery_action", "Reset"); put(g, "memory.used", "0 MiB")
    }
}

function first_of_gpus_lost(    g) { for (g = 0; g < gpus; g++) if ((("gpu-lost", g) in fault)) return g; return -1 }
function lost_message(g) { return "Unable to determine the device handle for GPU " short_bus(g) ": GPU is lost.  Reboot the system to recover this GPU" }
function short_bus(g,    bus) { bus = get(g, "pci.bus_id"); sub(/^0000/, "", bus); return bus }

# -- nvidia-smi --query-gpu ------------------------------------------------------------------------------------------

function query(    n, i, g, name, wanted, line, head, bad) {
    n = split(fields, wanted, /, */)
    for (i = 1; i <= n; i++) {
        name = wanted[i] in ALIAS ? ALIAS[wanted[i]] : wanted[i]
        sub(/^clocks_throttle_reasons/, "clocks_event_reasons", name)
        if (!(name in column)) {
            printf "Field \"%s\" is not a valid field to query.\n\n", wanted[i]
            return 2
        }
        at[i] = column[name]
        head = head (i > 1 ? ", " : "") wanted[i] units[at[i]]
    }
    if (only != "" && !selected_any()) { print "No devices were found"; return 6 }
    if (format !~ /,noheader,/) print head
    for (g = 0; g < gpus; g++) {
        if (!selected(g)) continue
        line = ""
        if ((("gpu-lost", g) in fault)) { print lost_message(g); bad = 15 }
        for (i = 1; i <= n; i++) line = line (i > 1 ? ", " : "") ((("gpu-lost", g) in fault) ? "[GPU is lost]" : cell(g, at[i]))
        print line
    }
    return bad + 0
}

function cell(g, i,    text) {
    text = value[g, i]
    if (format ~ /,nounits,/ && units[i] != "") sub(/ [^ \]]+$/, "", text)
    return text
}

function selected_any(    g) { for (g = 0; g < gpus; g++) if (selected(g)) return 1; return 0 }
function selected(g,    list, i, n) {
    if (only == "") return 1
    n = split(only, list, ",")
    for (i = 1; i <= n; i++) if (list[i] == g || list[i] == get(g, "uuid") || list[i] == get(g, "pci.bus_id") || list[i] == short_bus(g)) return 1
    return 0
}

# -- nvidia-smi topo -m ----------------------------------------------------------------------------------------------

function matrix_line(    n, word, i, row, other) {
    n = split($0, word, "\t")
    if (FNR == 1) { for (i = 1; i <= n; i++) { heading[i] = word[i]; gsub(/\033\[[0-9]*m/, "", heading[i]) } }
    if (word[1] ~ /^GPU[0-9]+$/) {
        row = substr(word[1], 4)
        for (i = 2; i <= n; i++) {
            if (heading[i] !~ /^GPU[0-9]+$/) continue
            other = substr(heading[i], 4)
            if ((row, other) in cut) word[i] = numa_like(row, other)
        }
        $0 = word[1]
        for (i = 2; i <= n; i++) $0 = $0 "\t" word[i]
    }
    print
}

# What is left between two GPUs without NVLink: these machines have four GPUs a socket.
function numa_like(a, b) { return int(a / (gpus / 2)) == int(b / (gpus / 2)) ? "NODE" : "SYS" }

# -- nvidia-smi nvlink -s --------------------------------------------------------------------------------------------

function nvlink_line() {
    if ($0 ~ /^GPU [0-9]+:/) { current = $0; sub(/^GPU /, "", current); sub(/:.*/, "", current); silent = 0 }
    if (!(current in bare) || $0 !~ /^\t Link/) { print; return }
    # Bridged pairs lose all their links; behind a switch one link is down.
    if (gpus_bridged()) { if (!silent) print "NVML: Unable to retrieve NVLink information as all links are inActive"; silent = 1; return }
    if (!silent) sub(/: .*/, ": <inactive>")
    silent = 1
    print
}
function gpus_bridged() { return get(0, "fabric.state") == "[N/A]" }

# -- nvidia-smi ------------------------------------------------------------------------------------------------------

function table(    g, rule, wide) {
    wide = "+-----------------------------------------------------------------------------------------+"
    rule = "+-----------------------------------------+------------------------+----------------------+"
    "date '+%a %b %e %H:%M:%S %Y'" | getline now
    printf "%s       \n%s\n", now, wide
    printf "| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %-8s |\n", get(0, "driver_version"), get(0, "driver_version"), cuda
    print rule
    print "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |"
    print "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |"
    print "|                                         |                        |               MIG M. |"
    print "|=========================================+========================+======================|"
    for (g = 0; g < gpus; g++) { gpu_rows(g); print rule }
    printf "\n%s\n", wide
    print "| Processes:                                                                              |"
    print "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |"
    print "|        ID   ID                                                               Usage      |"
    print "|=========================================================================================|"
    print "|  No running processes found                                                             |"
    print wide
}

function gpu_rows(g,    hot, draw, mig, reset) {
    reset = (("gpu-reset", g) in fault)
    hot = reset ? "ERR!" : get(g, "temperature.gpu") "C"
    draw = reset ? "N/A" : int(get(g, "power.draw") + 0.5) "W"
    mig = get(g, "mig.mode.current") == "[N/A]" ? "N/A" : get(g, "mig.mode.current")
    printf "| %3d  %-26.26s %5s  |   %-16s %-3s | %20s |\n", g, get(g, "name"), "On", get(g, "pci.bus_id"), "Off", get(g, "ecc.errors.uncorrected.volatile.total")
    printf "| %-4s %4s   %-4s %22s |%8sMiB / %6sMiB | %7s %12s |\n", reset ? "ERR!" : "N/A", hot, get(g, "pstate"), draw " / " sprintf("%4dW", get(g, "power.limit")), get(g, "memory.used") + 0, get(g, "memory.total") + 0, reset ? "ERR!" : trim(get(g, "utilization.gpu")), get(g, "compute_mode")
    printf "|                                         |                        | %20s |\n", mig
}
function trim(text) { gsub(/[][ ]/, "", text); return text }
