"""Can these GPUs run a checkpoint that is quantised like this?"""

import re
from collections.abc import Mapping

from fleet.gate import gate
from fleet.known import Undecidable, engine_for, facts_of, layout_of
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
    """The engine runs the checkpoint's quantisation on GPUs of this compute capability. Unquantised: nothing is asked.

    Which kernels and KV cache types an attention backend has for a capability is not judged: images are patched for it.
    """
    folder = plan.model_folder
    if folder is None or folder.config is None:
        raise Undecidable("config.json", (folder.error if folder else None) or "nothing")
    stated = folder.config.get("quantization_config") or folder.config.get("compression_config")
    if not stated:
        return None
    method = str(stated.get("quant_method", "")).lower() if isinstance(stated, Mapping) else ""
    if method not in LEAST_CAPABILITY:
        raise Undecidable(f"a quant_method known here ({', '.join(LEAST_CAPABILITY)})", repr(stated)[:120])
    engine_for(plan)  # what an engine that nobody knows can run is not known either
    least, used = LEAST_CAPABILITY[method], set(layout_of(plan).device_order)
    for gpu in facts_of(plan).nvidia.gpus:
        if gpu.index not in used:
            continue
        told = re.fullmatch(r"([0-9]{1,2})\.([0-9])", gpu.compute_cap or "")
        if told is None:
            raise Undecidable(f"the compute capability of GPU {gpu.index}", gpu.compute_cap or "nothing")
        if int(told[1]) * 10 + int(told[2]) < least:
            want = f"compute capability {least // 10}.{least % 10} for {method}"
            return Finding(want=want, got=f"{gpu.compute_cap} of GPU {gpu.index} ({gpu.name})")
    return None
