"""Flags that people still write, long after vLLM dropped or renamed them, and what does the same today."""

REPLACED = {
    "--task": "--runner pooling, with --convert embed, classify or reward for a generative model",
    "--rope-scaling": '--hf-overrides with {"rope_parameters": {...}}',
    "--rope-theta": '--hf-overrides with {"rope_parameters": {"rope_theta": ...}}',
    "--num-scheduler-steps": "leave it out: multi-step scheduling is gone",
    "--use-v2-block-manager": "leave it out: there is only one block manager",
    "--enable-reasoning": "leave it out: --reasoning-parser alone is enough",
    "--swap-space": "leave it out: nothing is swapped to the CPU any more",
    "--disable-log-requests": "leave it out: requests are logged only with --enable-log-requests",
    "--max-seq-len-to-capture": "--max-cudagraph-capture-size",
    "--calculate-kv-scales": "leave it out: scales come with the checkpoint",
    "--speculative-model": '--speculative-config with {"model": ..., "method": ..., "num_speculative_tokens": ...}',
    "--num-speculative-tokens": '--speculative-config with {"num_speculative_tokens": ...}',
    "--override-pooler-config": "--pooler-config",
    "--guided-decoding-backend": '--structured-outputs-config with {"backend": ...}',
    "--mm-processor-kwargs-json": "--mm-processor-kwargs",
    "--cuda-graph-sizes": "--cudagraph-capture-sizes",
    "--disable-mm-preprocessor-cache": "--mm-processor-cache-gb 0",
    "--device": "leave it out: the platform is found by the engine",
    "--preemption-mode": "leave it out: a preempted request is always computed anew",
    "--block-manager": "leave it out: there is only one block manager",
}
