# The GPUs, one CSV row each.
section_gpus() {
    run nvidia-smi "--query-gpu=$gpu_fields" --format=csv,noheader,nounits
}
