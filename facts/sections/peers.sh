# Between which GPUs the driver allows reading one another's memory; a deep look only.
section_peers() {
    run nvidia-smi topo -p2p r
}
