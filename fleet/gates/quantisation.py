"""Can these GPUs run a checkpoint that is quantised like this?"""

from collections.abc import Mapping

from fleet.gate import gate
from fleet.gates.attention import capabilities
from fleet.known import Undecidable, config_of, engine_for
from fleet.plan import Plan
from fleet.verdict import Finding

LEAST_CAPABILITY = {
    "compressed-tensors": 70,
    "gptq": 60,
    "awq": 75,
    "fp8": 75,
    "mxfp4": 80,
    "modelopt": 80,
    "modelopt_fp4": 75,
}
"""quant_method -> the least compute capability, times ten (vLLM 0.28 to 0.32, `get_min_capability` of each method)."""


@gate(
    "quantisation-gpu",
    reads="config.json (quant_method), nvidia-smi (compute_cap), image.engine",
    remedy="serve a checkpoint in another form on {node}, or place {service} on newer GPUs",
    needs_facts=True,
)
def quantisation_gpu(plan: Plan) -> Finding | None:
    """The engine runs the checkpoint's quantisation on GPUs of this compute capability. Unquantised: not asked."""
    config = config_of(plan)
    stated = config.get("quantization_config") or config.get("compression_config")
    if not stated:
        return None
    method = str(stated.get("quant_method", "")).lower() if isinstance(stated, Mapping) else ""
    if method not in LEAST_CAPABILITY:
        raise Undecidable(f"a quant_method known here ({', '.join(LEAST_CAPABILITY)})", repr(stated)[:120])
    engine_for(plan)  # what an engine that nobody knows can run is not known either
    least = LEAST_CAPABILITY[method]
    for capability, indices in capabilities(plan).items():
        major, _, minor = capability.partition(".")
        if int(major) * 10 + int(minor) < least:
            want = f"compute capability {least // 10}.{least % 10} for {method}"
            return Finding(want=want, got=f"{capability} of GPU {indices[0]} ({plan.node.gpus.model})")
    return None
