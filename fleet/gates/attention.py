"""Has the engine version an attention backend for this model, this KV cache and these GPUs?"""

import json
import re
from collections.abc import Iterable, Mapping

from fleet.engines.backends import LATENT, PLAIN, SPARSE, Backend, backends_of, nearest
from fleet.engines.catalogs import catalog_of
from fleet.gate import gate
from fleet.known import Undecidable, config_of, gpus_of, layout_of
from fleet.plan import Plan
from fleet.verdict import Finding

_CAPABILITY = re.compile(r"([0-9]{1,2})\.([0-9])")
_ENV = "VLLM_ATTENTION_BACKEND"
PATCHED_BELOW = 9
"""Sparse attention on GPUs older than this major number is in no version, and in images that somebody patched."""


def capabilities(plan: Plan) -> dict[str, list[int]]:
    """Compute capability -> the service's GPUs that have it. Raises Undecidable where a GPU does not tell."""
    used, found = set(layout_of(plan).device_order), dict[str, list[int]]()
    for gpu in gpus_of(plan):
        if gpu.index not in used:
            continue
        if _CAPABILITY.fullmatch(gpu.compute_cap or "") is None:
            said = gpu.compute_cap or "nothing"
            raise Undecidable(f"the compute capability of GPU {gpu.index}", said, "see nvidia-smi on {node}")
        found.setdefault(str(gpu.compute_cap), []).append(gpu.index)
    if not found:
        raise Undecidable("the compute capability of the service's GPUs", "none of these GPUs")
    return found


def _backends(plan: Plan) -> dict[str, Backend]:
    try:
        return backends_of(plan.service.image.engine)
    except KeyError:
        raise Undecidable("an engine version with a catalog", plan.service.image.engine) from None


def named_backend(plan: Plan) -> str | None:
    """The backend that the owner names, by a flag or by the variable that some versions read."""
    flags = plan.service.flags
    config = flags.get("--attention-config")
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except (ValueError, RecursionError):
            config = None  # `engine-argv` says so
    nested = config.get("backend") if isinstance(config, Mapping) else None
    catalog = catalog_of(plan.service.image.engine)
    read = catalog is not None and _ENV in catalog.environment
    named = flags.get("--attention-backend", flags.get("--attention-config.backend", nested))
    named = named or (plan.service.env.get(_ENV) if read else None)
    return None if named is None or str(named).lower() == "auto" else str(named).upper()


def _own(plan: Plan, name: str | None = None) -> bool:
    """Is this a backend that the image has beyond its version, by the owner's word? Without a name: has it any?"""
    added = {one.upper() for one in plan.service.image.backends}
    return bool(added) if name is None else name in added


def _gpus(indices: Iterable[int]) -> str:
    return ", ".join(map(str, indices))


@gate(
    "attention-backend",
    reads="flags (--attention-backend, --attention-config), kv_cache_dtype, nvidia-smi (compute_cap), image.engine",
    remedy="name another --attention-backend or kv_cache_dtype for {service}, or none; or declare image.backends",
    needs_facts=True,
)
def attention_backend(plan: Plan) -> list[Finding]:
    """A backend that the owner names is one of the engine version, runs on these GPUs and reads this KV cache.

    One that the image adds (`image.backends`) is the owner's to know.
    """
    name, dtype = named_backend(plan), plan.service.kv_cache_dtype
    if name is None or _own(plan, name):
        return []
    known, version = _backends(plan), plan.service.image.engine
    if name not in known:
        return [Finding(want=f"an attention backend that vLLM {version} has for CUDA", got=name)]
    found = [
        Finding(want=f"compute capability {', '.join(known[name].capabilities)} for {name}", got=f"{cap} of GPU {gpus}")
        for cap, indices in capabilities(plan).items()
        if not known[name].runs_on(cap) and (gpus := _gpus(indices))
    ]
    if not known[name].reads(dtype):
        want = f"a KV cache that {name} reads ({', '.join(sorted(known[name].kv_cache_dtypes))})"
        found.append(Finding(want=want, got=f"kv_cache_dtype: {dtype}"))
    return found


def _candidates(plan: Plan) -> tuple[str, tuple[str, ...] | None]:
    """What kind of attention the model has, and the backends for it; None: any, this kind is not told apart."""
    config = config_of(plan)
    text = {**config, **(nested if isinstance(nested := config.get("text_config"), Mapping) else {})}
    kind = str(text.get("model_type", ""))
    if kind.startswith(("deepseek_v4", "minimax_m3", "step5")):
        return kind, None
    if text.get("kv_lora_rank"):
        return ("sparse MLA", SPARSE) if text.get("index_topk") else ("MLA", LATENT)
    return "keys and values", PLAIN


@gate(
    "kv-cache-gpu",
    reads="kv_cache_dtype, config.json, nvidia-smi (compute_cap), image.engine",
    severity="fail or warn",
    remedy="set kv_cache_dtype of {service} to one that is named, or place it on newer GPUs; an image that is patched "
    "for them says so in image.backends",
    needs_facts=True,
)
def kv_cache_gpu(plan: Plan) -> list[Finding]:
    """The engine version has an attention backend for this model that runs on these GPUs and reads this KV cache.

    Sparse attention on GPUs before 9.0 is in no version, and images are patched for it (an operator's 8 x A100 run
    one): there it is a warning, unless image.backends names what the image adds.
    """
    if named_backend(plan) is not None or _own(plan):
        return []
    dtype, known = plan.service.kv_cache_dtype, _backends(plan)
    kind, names = _candidates(plan)
    fitting = [backend for name, backend in known.items() if names is None or name in names]
    findings = []
    for cap, indices in capabilities(plan).items():
        if nearest(cap) is None:
            raise Undecidable("a compute capability that backends were asked about (7.5 to 12.x)", cap)
        able = [backend for backend in fitting if backend.runs_on(cap)]
        if any(backend.reads(dtype) for backend in able):
            continue
        read = sorted({one for backend in able for one in backend.kv_cache_dtypes})
        want = f"an attention backend of vLLM {plan.service.image.engine} for {kind} with kv_cache_dtype {dtype}"
        got = f"none on compute capability {cap} (GPU {_gpus(indices)}); " + (
            f"there they read {', '.join(read)}" if read else "for this kind it has no backend there at all"
        )
        patched = names is SPARSE and int(cap.partition(".")[0]) < PATCHED_BELOW
        findings.append(Finding(want=want, got=got, warning=patched))
    return findings
