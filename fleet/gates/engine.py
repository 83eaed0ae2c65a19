"""Is the engine one that this project knows, the one in the image, and set in one place only?"""

from fleet.gate import gate
from fleet.known import Undecidable, engine_for, facts_of
from fleet.plan import Plan
from fleet.verdict import Finding

OWN_FLAGS = {
    "--model": "model",
    "--served-model-name": "served_model_name",
    "--host": "host",
    "--port": "port",
    "--tensor-parallel-size": "layout.tp",
    "--pipeline-parallel-size": "layout.pp",
    "--data-parallel-size": "layout.dp",
    "--max-model-len": "max_model_len",
    "--kv-cache-dtype": "kv_cache_dtype",
    "--speculative-config": "speculative",
    "--spec-method": "speculative",
    "--spec-tokens": "speculative",
    "--gpu-memory-utilization": "gpu_memory_utilization",
    "--disable-custom-all-reduce": "disable_custom_all_reduce",
    "--numa-bind": "numa_bind",
    "--numa-bind-nodes": "numa_bind",
    "--hf-overrides": "hf_overrides",
    "--nnodes": "nodes",
    "--node-rank": "nodes",
    "--master-addr": "nodes",
    "--master-port": "master_port",
    "--headless": "nodes",
    "--config": "the fields of the service",
}
DRAFT_MODEL = "--spec-model"
OWN_ENV = {
    "VLLM_PP_LAYER_PARTITION": "layout.partition",
    "VLLM_USE_V2_MODEL_RUNNER": "v2_runner",
    "CUDA_VISIBLE_DEVICES": "layout.device_order",
    "CUDA_DEVICE_ORDER": "layout.device_order",  # with another one the indices are those of other GPUs
}


@gate("engine-known", reads="image.engine", remedy="use an image of a known version")
def engine_known(plan: Plan) -> Finding | None:
    """The declared engine version is one whose limits this project knows."""
    engine_for(plan)
    return None


@gate(
    "image-engine",
    reads="image label, image.engine",
    severity="fail or warn",
    remedy="correct image.engine or image.digest of {service}",
    needs_facts=True,
)
def image_engine(plan: Plan) -> Finding | None:
    """The image on the node carries the declared engine version as its label. No label: a warning."""
    image = plan.service.image
    runtime = facts_of(plan).runtime
    held = next((one for one in runtime.images if one.digest == image.digest), None)
    want = f"engine {image.engine} in the image"
    if held is None:
        raise Undecidable(want, runtime.error or "no such image on the node", "bring the image to {node}")
    if held.engine is None:
        return Finding(want=want, got="no label org.vllm-fleet.engine", remedy="label the image", warning=True)
    same = held.engine == image.engine or held.engine.startswith(f"{image.engine}.")
    return None if same else Finding(want=want, got=held.engine)


@gate("set-once", reads="flags, env, secrets", remedy="use the field of {service} that is named")
def set_once(plan: Plan) -> Finding | None:
    """No extra flag or environment variable sets what has a field of its own.

    Gates read the field, the engine reads the flag. The engine's parser takes `_` for `-`, a dotted key
    (`--speculative-config.method`), a `--no-` form and any unique prefix.
    """
    found = {}
    # A draft model alone turns speculation on; beside the field it only names the model of that method.
    fields = OWN_FLAGS if plan.speculative else {**OWN_FLAGS, DRAFT_MODEL: "speculative"}
    for flag in plan.service.flags:
        written = flag.partition(".")[0].replace("_", "-").replace("--no-", "--", 1)
        own = next((field for name, field in fields.items() if name.startswith(written)), None)
        if own:
            found[flag] = own
    same = plan.service.env.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"  # many set what is set anyway
    names = {*plan.service.env, *plan.service.secrets} - ({"CUDA_DEVICE_ORDER"} if same else set())
    found |= {name: OWN_ENV[name] for name in names if name in OWN_ENV}
    if not found:
        return None
    want = "each setting in its field"
    return Finding(want=want, got=", ".join(f"{name} (field: {field})" for name, field in sorted(found.items())))
