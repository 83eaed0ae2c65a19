# awk -f nvidia-smi.awk -v mode=MODE FAULTS GPUS.CSV FILE
# Prints what nvidia-smi would: MODE is query, apps, list, table, topo, ptop or nvlink; FILE is the recording of that command.
# A message of a failed GPU goes to standard output and the exit code is 15, as the real tool does.

BEGIN {
    FS = ", "
    gpus = 0
    ALIAS["gpu_name"] = "name"
    ALIAS["gpu_uuid"] = "uuid"
    ALIAS["gpu_bus_id"] = "pci.bus_id"
    ALIAS["gpu_serial"] = "serial"
}

FILENAME ~ /\/faults$/ { read_fault($1); next }
FILENAME ~ /\/gpus\.csv$/ && FNR == 1 { read_titles(); next }
FILENAME ~ /\/gpus\.csv$/ {
    for (i = 1; i <= NF; i++) value[gpus, i] = $i
    afflict(gpus)
    gpus++
    next
}

# From here on the recording of the command itself; faults and GPUs are known.
FNR == 1 && mode != "query" && mode != "apps" && first_lost() >= 0 {
    print distress(first_lost())
    failed = 1
    exit
}
mode == "topo" { matrix_line(); next }
mode == "ptop" { peers_line(); next }
mode == "nvlink" { nvlink_line(); next }
/^CUDA Version/ { sub(/^[^:]*: /, ""); cuda = $0 }

END {
    if (failed) exit 15
    if (mode == "query") exit query()
    if (mode == "apps") apps()
    if (mode == "list") list()
    if (mode == "table") table()
}

function get(g, name) { return value[g, column[name]] }
function put(g, name, what) { if (name in column) value[g, column[name]] = what }
function has(name, g) { return (name, g) in fault }

function read_fault(text,    word, end) {
    split(text, word, ":")
    if (word[1] == "nvlink-down") down[word[2]] = 1
    if (word[1] != "nvlink-missing") {
        fault[word[1], word[2]] = 1
        return
    }
    split(word[2], end, "-")
    cut[end[1], end[2]] = cut[end[2], end[1]] = bare[end[1]] = bare[end[2]] = 1
}

# The titles of the recording are those of the real tool, such as "memory.total [MiB]": name and unit.
function read_titles(    i, name) {
    for (i = 1; i <= NF; i++) {
        name = $i
        unit[i] = ""
        if (match(name, / \[/)) {
            unit[i] = substr(name, RSTART)
            name = substr(name, 1, RSTART - 1)
        }
        column[name] = i
    }
}

function afflict(g,    i, n, live) {
    if (has("ecc", g)) {
        put(g, "ecc.errors.uncorrected.volatile.total", 3)
        put(g, "ecc.errors.uncorrected.volatile.dram", 3)
        put(g, "ecc.errors.uncorrected.aggregate.total", 3)
        put(g, "remapped_rows.uncorrectable", 1)
        put(g, "remapped_rows.failure", "Yes")
    }
    if (has("remap-pending", g)) put(g, "remapped_rows.pending", "Yes")
    if (has("persistence-off", "")) put(g, "persistence_mode", "Disabled")
    if (has("power-capped", g)) put(g, "enforced.power.limit", "250.00 W")
    if (has("throttled", g)) put(g, "clocks_event_reasons.active", "0x0000000000000048")
    if (has("pcie-narrow", g)) put(g, "pcie.link.width.current", "8")
    if (has("fabric-down", "")) {
        put(g, "fabric.state", "In Progress")
        put(g, "fabric.status", "N/A")
    }
    if (has("foreign", g)) put(g, "memory.used", "30000 MiB")
    if (has("mig", g)) {
        put(g, "mig.mode.current", "Enabled")
        put(g, "mig.mode.pending", "Enabled")
        put(g, "utilization.gpu", "[N/A]")
        put(g, "utilization.memory", "[N/A]")
    }
    if (has("gpu-reset", g)) {
        n = split("temperature.gpu temperature.memory utilization.gpu utilization.memory power.draw power.draw.average" \
            " power.draw.instant clocks.current.graphics clocks.current.sm clocks.current.memory", live, " ")
        for (i = 1; i <= n; i++) put(g, live[i], "[GPU requires reset]")
        put(g, "memory.used", "0 MiB")
        put(g, "gpu_recovery_action", "Reset")
    }
}

function first_lost(    g) {
    for (g = 0; g < gpus; g++) if (has("gpu-lost", g)) return g
    return -1
}

function distress(g) {
    return "Unable to determine the device handle for GPU " short_bus(g) \
        ": GPU is lost.  Reboot the system to recover this GPU"
}

function short_bus(g,    bus) {
    bus = get(g, "pci.bus_id")
    sub(/^0000/, "", bus)
    return bus
}

# -- nvidia-smi --query-gpu --------------------------------------------------------------------------------------

function query(    n, i, g, name, wanted, at, head, code) {
    n = split(fields, wanted, /, */)
    for (i = 1; i <= n; i++) {
        name = wanted[i] in ALIAS ? ALIAS[wanted[i]] : wanted[i]
        sub(/^clocks_throttle_reasons/, "clocks_event_reasons", name)
        if (!(name in column)) {
            printf "Field \"%s\" is not a valid field to query.\n\n", wanted[i]
            return 2
        }
        at[i] = column[name]
        head = head (i > 1 ? ", " : "") wanted[i] unit[at[i]]
    }
    for (g = 0; g < gpus; g++) chosen += selected(g)
    if (!chosen) {
        print "No devices were found"
        return 6
    }
    if (format !~ /,noheader,/) print head
    for (g = 0; g < gpus; g++) if (selected(g)) code = row(g, at, n) > code ? 15 : code
    return code + 0
}

function row(g, at, n,    i, line) {
    if (has("gpu-lost", g)) print distress(g)
    for (i = 1; i <= n; i++) line = line (i > 1 ? ", " : "") (has("gpu-lost", g) ? "[GPU is lost]" : cell(g, at[i]))
    print line
    return has("gpu-lost", g) ? 15 : 0
}

function cell(g, i,    text) {
    text = value[g, i]
    if (format ~ /,nounits,/ && unit[i] != "" && text !~ /^\[/) sub(/ [^ ]+$/, "", text)
    return text
}

function selected(g,    id, i, n) {
    if (only == "") return 1
    n = split(only, id, ",")
    for (i = 1; i <= n; i++)
        if (id[i] == g || id[i] == get(g, "uuid") || id[i] == get(g, "pci.bus_id") || id[i] == short_bus(g)) return 1
    return 0
}

# -- nvidia-smi topo -m ------------------------------------------------------------------------------------------

function matrix_line(    n, word, i, self, other, line) {
    n = split($0, word, "\t")
    if (FNR == 1)
        for (i = 1; i <= n; i++) {
            heading[i] = word[i]
            gsub(/\033\[[0-9]*m/, "", heading[i])
        }
    if (word[1] !~ /^GPU[0-9]+$/) {
        print
        return
    }
    self = substr(word[1], 4)
    line = word[1]
    for (i = 2; i <= n; i++) {
        other = heading[i] ~ /^GPU[0-9]+$/ ? substr(heading[i], 4) : ""
        if (heading[i] == "CPU Affinity") word[i] = cpus_next_to(self)
        if ((self, other) in cut) word[i] = without_nvlink(self, other)
        if (((self in down) || (other != "" && other in down)) && word[i] ~ /^NV/) word[i] = fewer(word[i])
        line = line "\t" word[i]
    }
    print line
}

# The CPUs of the recorded machine are not there: those of this one are dealt out to its NUMA nodes.
function cpus_next_to(g,    socket) {
    split(affinity, socket, " ")
    return socket[g < gpus / 2 ? 1 : 2]
}

# Peer access: over NVLink and within a socket, as on most of such machines.
function peers_line(    n, word, i, line) {
    n = split($0, word, "\t")
    if (FNR == 1) {
        line = " "
        for (i = 0; i < gpus; i++) line = line "\tGPU" i
        print line
    }
    if (word[1] !~ /^GPU[0-9]+$/) return
    line = " " word[1]
    for (i = 0; i < gpus; i++) line = line "\t" peers(substr(word[1], 4), i, word[i + 2])
    print line
}

function peers(a, b, path) {
    if (a == b) return "X"
    if ((a, b) in cut) return "CNS"
    return path ~ /NV|PIX|PXB|PHB|NODE/ && !(has("p2p-off", "")) ? "OK" : "CNS"
}

# A bond of links with one of them down.
function fewer(bond) { return "NV" (substr(bond, 3) - 1) }

# What is left between two GPUs: all recorded nodes have half of their GPUs on each socket.
function without_nvlink(a, b) { return int(a / (gpus / 2)) == int(b / (gpus / 2)) ? "NODE" : "SYS" }

# -- nvidia-smi nvlink -s ----------------------------------------------------------------------------------------

# Two GPUs with a bridge lose all their links; behind a switch (with a fabric) one link is down.
function nvlink_line(    switched) {
    if (match($0, /^GPU [0-9]+/)) {
        current = substr($0, 5, RLENGTH - 4)
        told = 0
    }
    if (current in down && !told && $0 ~ /^\t Link/) {
        sub(/: .*/, ": <inactive>")
        told = 1
    }
    if (!(current in bare) || $0 !~ /^\t Link/) {
        print
        return
    }
    switched = get(0, "fabric.state") != "[N/A]"
    if (switched && !told) sub(/: .*/, ": <inactive>")
    if (switched) print
    if (!switched && !told) print "NVML: Unable to retrieve NVLink information as all links are inActive"
    told = 1
}

# -- nvidia-smi -L and nvidia-smi --------------------------------------------------------------------------------

# A process that is not ours: the host's own PID 1 stands for it.
function apps(    g) {
    for (g = 0; g < gpus; g++) if (has("foreign", g)) printf "%s, 1, python3, 29996\n", get(g, "pci.bus_id")
}

function list(    g) {
    for (g = 0; g < gpus; g++) printf "GPU %d: %s (UUID: %s)\n", g, get(g, "name"), get(g, "uuid")
}

function table(    g, line, now, driver) {
    line = "+-----------------------------------------+------------------------+----------------------+"
    driver = get(0, "driver_version")
    "LC_ALL=C date '+%a %b %e %H:%M:%S %Y'" | getline now
    printf "%s       \n", now
    print "+-----------------------------------------------------------------------------------------+"
    printf "| NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %-8s |\n", driver, driver, cuda
    print line
    print "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |"
    print "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |"
    print "|                                         |                        |               MIG M. |"
    print "|=========================================+========================+======================|"
    for (g = 0; g < gpus; g++) {
        gpu_rows(g)
        print line
    }
    print ""
    print "+-----------------------------------------------------------------------------------------+"
    print "| Processes:                                                                              |"
    print "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |"
    print "|        ID   ID                                                               Usage      |"
    print "|=========================================================================================|"
    print "|  No running processes found                                                             |"
    print "+-----------------------------------------------------------------------------------------+"
}

function gpu_rows(g,    reset, power) {
    reset = has("gpu-reset", g)
    power = (reset ? "N/A" : int(get(g, "power.draw") + 0.5) "W") " / " sprintf("%4dW", get(g, "power.limit"))
    printf "| %3d  %-27.27s %5s  |", g, get(g, "name"), (get(g, "persistence_mode") == "Disabled" ? "Off" : "On")
    printf "   %-16s Off | %20s |\n", get(g, "pci.bus_id"), get(g, "ecc.errors.uncorrected.volatile.total")
    printf "|%4s %5s %5s%24s |", reset ? "ERR!" : "N/A", reset ? "ERR!" : get(g, "temperature.gpu") "C", get(g, "pstate"), power
    printf "%8dMiB / %6dMiB |", get(g, "memory.used"), get(g, "memory.total")
    printf "%8s %12s |\n", reset ? "ERR!" : bare_text(get(g, "utilization.gpu")), get(g, "compute_mode")
    printf "|                                         |                        | %20s |\n", bare_text(get(g, "mig.mode.current"))
}

function bare_text(text) {
    gsub(/[][ ]/, "", text)
    return text
}
