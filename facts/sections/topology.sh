# The matrix of links between GPUs.
section_topology() {
    run nvidia-smi topo -m
}
