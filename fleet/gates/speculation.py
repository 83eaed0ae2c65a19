"""Does speculative decoding run with this pipeline, this model runner, this engine version and this model?"""

from fleet.engines.engine import first_with_speculation_under_pp
from fleet.gate import gate
from fleet.gates.engine import DRAFT_MODEL
from fleet.known import architecture_of, engine_for, layout_of
from fleet.plan import Plan
from fleet.verdict import Finding

FIRST_WITH_PP = first_with_speculation_under_pp()


def _is_ngram(method: str) -> bool:
    return method.startswith("ngram")


@gate(
    "speculation-pp",
    reads="speculative, layout, image.engine",
    remedy=f"use speculative: auto or none, PP 1, or an image of engine {FIRST_WITH_PP} or later",
)
def speculation_pp(plan: Plan) -> Finding | None:
    """Speculative decoding with more than one stage runs only on an engine version that has it."""
    pp, method = layout_of(plan).pp, plan.speculative
    if method is None or pp == 1 or engine_for(plan).speculation_under_pp:
        return None
    return Finding(
        want=f"engine {FIRST_WITH_PP} or later for speculative decoding under pipeline parallelism",
        got=f"{method} at PP {pp} on engine {plan.service.image.engine}",
    )


@gate(
    "ngram-v2",
    reads="speculative, v2_runner, layout",
    remedy="use speculative: mtp, auto or none, or PP 1 with v2_runner: auto or false",
)
def ngram_v2(plan: Plan) -> Finding | None:
    """ngram is not asked of the V2 model runner, which has none, nor of a pipeline, which needs that runner."""
    pp, method = layout_of(plan).pp, plan.speculative
    if method is None or not _is_ngram(method.method) or (pp == 1 and plan.v2_runner is not True):
        return None
    why = f"PP {pp}, which needs the V2 model runner" if pp > 1 else "v2_runner: true"
    return Finding(want="a method that the V2 model runner has", got=f"{method} with {why}")


@gate(
    "runner", reads="speculative, v2_runner, image.engine", remedy="set v2_runner: auto or true, or speculative: none"
)
def runner(plan: Plan) -> Finding | None:
    """Speculative decoding under a pipeline has the V2 runner pinned, and the method is one of that runner.

    Left unset the engine falls back silently to the V1 runner, whose MTP asserts under pipeline parallelism.
    """
    pp, method = layout_of(plan).pp, plan.speculative
    if method is None or _is_ngram(method.method):
        return None
    if pp > 1 and plan.v2_runner is not True:
        got = "left to the engine" if plan.v2_runner is None else "v2_runner: false"
        return Finding(want=f"the V2 model runner pinned for {method} at PP {pp}", got=got)
    if plan.v2_runner is True and method.method not in (methods := engine_for(plan).v2_methods):
        remedy = "use one of these, or none; waive runner if the image has more"
        return Finding(want=f"a method of the V2 model runner ({', '.join(methods)})", got=str(method), remedy=remedy)
    return None


@gate(
    "speculation-fallback",
    reads="speculative, config.json, image.engine",
    severity="warn",
    remedy="nothing, or use an engine that can",
)
def speculation_fallback(plan: Plan) -> list[Finding]:
    """Nothing was decided automatically that would surprise; what was is shown as a warning."""
    return [Finding(want="speculative decoding as auto prefers it", got=note, warning=True) for note in plan.notes]


DRAFTS_BY_ITSELF = ("mtp", "dspark", "ngram", "ngram_gpu", "suffix", "extract_hidden_states")


@gate(
    "draft-model",
    reads="speculative, flags",
    remedy="name it (flags: {--spec-model: FOLDER}, and mounts), or use mtp, ngram or none",
)
def draft_model(plan: Plan) -> Finding | None:
    """A method whose draft is a model of its own names it; else the engine refuses to start (SpeculativeConfig)."""
    method = plan.speculative
    if method is None or method.method in DRAFTS_BY_ITSELF or method.method.endswith("_mtp"):
        return None
    if any(DRAFT_MODEL.startswith(flag.replace("_", "-")) for flag in plan.service.flags):
        return None
    return Finding(want=f"the draft model of {method.method}", got=f"{method} without {DRAFT_MODEL}")


@gate(
    "mtp-layers", reads="config.json, speculative", remedy="use speculative: none or another method", needs_facts=True
)
def mtp_layers(plan: Plan) -> Finding | None:
    """MTP is asked only of a model that has MTP layers."""
    method = plan.speculative
    if method is None or not method.method.endswith("mtp") or architecture_of(plan).mtp_layers:
        return None
    return Finding(want=f"a model with MTP layers for {method}", got=f"none in {plan.service.model}")
