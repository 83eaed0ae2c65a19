# What a started engine says of its memory, for the next plan: lines of its log since this start, and its GPUs.

verb_measured() { # SERVICE
  local unit invocation line
  unit_of "$1" unit
  invocation=$(systemctl show --value -p InvocationID -- "$unit")
  [[ $invocation =~ ^[0-9a-f]{32}$ ]] || die "$unit has not been started (found the invocation '$invocation')"
  journalctl --quiet --no-pager --output=cat "_SYSTEMD_INVOCATION_ID=$invocation" 2>/dev/null \
    | grep -aE 'Model loading took|Available KV cache memory|Graph capturing finished|KV cache size:' \
    | tail -n 64 | quote_lines
  type -P nvidia-smi >/dev/null || return 0
  while IFS= read -r line; do result gpu "$line"; done \
    < <(timeout 10 nvidia-smi --query-gpu=index,memory.used,memory.total --format=csv,noheader,nounits 2>&1)
}
