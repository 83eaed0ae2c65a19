"""Why TP x PP x DP cannot be: what the engine refuses or is known to get wrong, before any byte is counted."""

from collections.abc import Iterator

from fleet.engines.engine import Engine
from fleet.layouts.sizes import Sizes
from fleet.layouts.widths import Widths
from fleet.model.architecture import Architecture

VOCABULARY_PADDING = 64
"""Rows of the embedding are padded to a multiple of this before TP divides them (vLLM `VocabParallelEmbedding`)."""


def problems(sizes: Sizes, model: Architecture, widths: Widths) -> tuple[str, ...]:
    """Everything that stands against these sizes for this model, in words; empty where nothing does."""
    return tuple((*_division(sizes.tp, model, widths), *_quantisation(sizes, widths), *_stages(sizes.pp, model)))


def _division(tp: int, model: Architecture, widths: Widths) -> Iterator[str]:
    if model.attention_heads % tp:
        yield f"{model.attention_heads} attention heads do not divide by TP {tp}"
    heads = model.kv_heads
    if heads and heads % tp and tp % heads:
        yield f"{heads} KV heads neither divide by TP {tp} nor are replicated evenly"
    if widths.hidden and widths.hidden % tp:
        yield f"hidden size {widths.hidden:,} does not divide by TP {tp}"
    for what, width in (("intermediate size", widths.intermediate), ("expert size", widths.expert)):
        if width and width % tp and not widths.padded:
            yield f"{what} {width:,} does not divide by TP {tp}"
    if widths.vocabulary:
        rows = -(-widths.vocabulary // VOCABULARY_PADDING) * VOCABULARY_PADDING
        if rows % tp:
            yield f"the vocabulary, padded to {rows:,} rows, does not divide by TP {tp}"


def _quantisation(sizes: Sizes, widths: Widths) -> Iterator[str]:
    """Scales are kept a group of inputs: a shard that ends inside a group has scales of its neighbour.

    Not checked everywhere by the engine (29,568 / 8 = 3,696 is no multiple of 128).
    """
    group = widths.quantisation_group
    if not group or widths.padded:
        return
    # Experts are spread over the DP ranks as well (vLLM `flatten_tp_across_dp_and_pcp`).
    spread = (("intermediate size", widths.intermediate, sizes.tp), ("expert size", widths.expert, sizes.tp * sizes.dp))
    for what, width, ranks in spread:
        if width and width % ranks == 0 and width // ranks % group:
            yield f"{what} {width:,} / {ranks} = {width // ranks:,} is no multiple of the quantisation group of {group}"


def _stages(pp: int, model: Architecture) -> Iterator[str]:
    if pp > model.layers:
        yield f"{pp} stages for {model.layers} layers"


def speculation_problem(pp: int, speculative: str | None, engine: Engine | None, version: str) -> str | None:
    """Speculation that was asked for by name does not run under this pipeline."""
    if speculative is None or pp == 1:
        return None
    if speculative.startswith("ngram"):
        return f"{speculative} does not run under a pipeline: the V2 model runner has none"
    if engine is None:
        return f"engine {version} is unknown: whether {speculative} runs under a pipeline is not known"
    return None if engine.speculation_under_pp else f"engine {version} has no {speculative} under a pipeline"
