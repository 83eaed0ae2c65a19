"""Is the model there, known, and long enough?"""

import json
from functools import lru_cache

from fleet.gate import gate
from fleet.known import architecture_of, checkpoint_of, config_of, engine_for
from fleet.layouts.question import Subject, subject_of
from fleet.model.agreement import disagreement
from fleet.plan import Plan
from fleet.verdict import Finding

ALLOW_LONGER = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
STRETCHED = "this engine takes it as what YaRN has stretched already"


@gate(
    "model-present",
    reads="config.json",
    remedy="bring the checkpoint to {node}, or correct model of {service}",
    needs_facts=True,
)
def model_present(plan: Plan) -> Finding | None:
    """The checkpoint's config.json can be read on the node."""
    folder = plan.model_folder
    if folder is not None and folder.config is not None:
        return None
    reason = folder.error if folder and folder.error else "nothing"
    return Finding(want=f"{plan.service.model}/config.json", got=reason)


@gate(
    "checkpoint-verified",
    reads="checkpoint; the folder's record on the node",
    remedy="run deliver.py, which brings and compares it",
    needs_facts=True,
)
def checkpoint_verified(plan: Plan) -> Finding | None:
    """A declared checkpoint was compared with its manifest, byte for byte, and nothing in the folder changed since."""
    declared, folder = plan.service.checkpoint, plan.model_folder
    if declared is None or (folder is not None and folder.verified == declared.digest):
        return None
    other = folder.verified if folder else None
    got = f"that of {other}" if other else "a folder that was not compared, or that was touched since"
    return Finding(want=f"{plan.service.model} with the content of {declared.digest}", got=got)


@gate(
    "model-known",
    reads="config.json, hf_overrides",
    remedy="correct config.json or hf_overrides of {service}",
    needs_facts=True,
)
def model_known(plan: Plan) -> Finding | None:
    """config.json, with the service's hf_overrides, tells layers and heads, and none of its numbers contradict."""
    architecture_of(plan)
    return None


@gate(
    "max-model-len",
    reads="config.json, max_model_len, env",
    severity="fail or warn",
    remedy="lower max_model_len of {service}",
    needs_facts=True,
)
def max_model_len(plan: Plan) -> Finding | None:
    """max_model_len is no more than the model's positions. Unknown, or VLLM_ALLOW_LONG_MAX_MODEL_LEN=1: a warning."""
    model, wanted = architecture_of(plan), plan.service.max_model_len
    most = model.max_positions
    if model.yarn_positions is not None and engine_for(plan).stretches_yarn:
        most = model.yarn_positions
    if most is None:
        remedy = "see that the model was trained for this length"
        return Finding(
            want="a model that states its positions", got=f"none to hold {wanted} against", remedy=remedy, warning=True
        )
    if wanted <= most:
        return None
    allowed = plan.service.env.get(ALLOW_LONGER, "").lower() in ("1", "true")
    longer = model.yarn_positions is not None and model.yarn_positions >= wanted
    return Finding(
        want=f"at most {most} tokens",
        got=f"{wanted}{f' with {ALLOW_LONGER}=1' if allowed else ''}",
        remedy=f"set max_position_embeddings to {model.yarn_positions} in hf_overrides too: {STRETCHED}"
        if longer
        else None,
        warning=allowed,
    )


@gate(
    "config-tensors",
    reads="config.json, headers of the safetensors files",
    remedy="put config.json and weights of one model into {service}'s folder on {node} (deliver.py brings both)",
    needs_facts=True,
)
def config_tensors(plan: Plan) -> Finding | None:
    """config.json is that of the tensors beside it: as many layers, heads and experts, of these sizes.

    A checkpoint that could not be read is for `checkpoint`; the owner's hf_overrides do not change what is stored.
    """
    said = _disagreement(subject_of(config_of(plan), {}, checkpoint_of(plan)))
    return None if said is None else Finding(want="a config.json of these tensors", got=said)


@lru_cache(maxsize=64)
def _disagreement(subject: Subject) -> str | None:
    """Many nodes have one checkpoint, and to sort its tensors takes longer than all the rest of a gate."""
    return None if subject.checkpoint is None else disagreement(json.loads(subject.config), subject.checkpoint)
