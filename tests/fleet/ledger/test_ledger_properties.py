"""What holds for every cut of every model: more memory is never fewer tokens, and layers add up wherever they lie."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from test_ledger_by_hand import HYBRID, LATENT, LLAMA, SPARSE, sliding

from fleet.ledger.budget import Measured, MeasuredStage
from fleet.ledger.ledger import Ledger
from fleet.ledger.serving import Draft, Serving
from fleet.model.read import read_model

MODELS = [LLAMA, LATENT, SPARSE, sliding(), sliding(13, 5), HYBRID]


@st.composite
def served(draw: st.DrawFn) -> tuple[dict[str, Any], Serving, tuple[int, ...]]:
    config = draw(st.sampled_from(MODELS))
    layers = config["num_hidden_layers"]
    pp = draw(st.integers(1, 3 if config is not HYBRID else 1))
    ends = sorted(draw(st.sets(st.integers(1, layers - 1), min_size=pp - 1, max_size=pp - 1)))
    cut = tuple(b - a for a, b in zip([0, *ends], [*ends, layers], strict=True))
    draft = Draft(method="mtp", k=draw(st.integers(1, 4))) if config.get("num_nextn_predict_layers") else None
    serving = Serving(
        engine=draw(st.sampled_from(["0.19.0", "0.20.0", "0.20.1", "0.30.0"])),
        tp=draw(st.sampled_from([1, 2, 4, 8])),
        pp=pp,
        max_model_len=draw(st.integers(1, 5000)),
        draft=draft,
        repair=draw(st.sampled_from(["none", "first", "all"])),
        max_num_batched_tokens=draw(st.integers(1, 4096)),
        kv_cache_dtype=draw(st.sampled_from(["auto", "fp8"])),
    )
    return config, serving, cut


def starts(cut: tuple[int, ...]) -> list[tuple[int, int, int]]:
    return [(stage, sum(cut[:stage]), sum(cut[: stage + 1])) for stage in range(len(cut))]


@given(served(), st.integers(0, 2**32), st.integers(0, 2**32))
def test_the_pool_never_grows_when_memory_shrinks(
    given_: tuple[dict[str, Any], Serving, tuple[int, ...]], one: int, other: int
) -> None:
    config, serving, cut = given_
    ledger = Ledger(read_model(config), serving)
    less, more = sorted((one, other))
    small, large = (ledger.pool(cut, (room,) * len(cut)) for room in (less, more))
    assert small.tokens <= large.tokens
    assert all(a <= b for a, b in zip(small.stage_tokens, large.stage_tokens, strict=True))


@given(served())
def test_a_stage_with_more_layers_never_weighs_less_nor_holds_more(
    given_: tuple[dict[str, Any], Serving, tuple[int, ...]],
) -> None:
    config, serving, cut = given_
    ledger = Ledger(read_model(config), serving.model_copy(update={"repair": "none"}))
    for stage, first, end in starts(cut):
        if end - first > 1:
            assert ledger.weights(stage, first, end - 1) <= ledger.weights(stage, first, end)
            assert ledger.block_bytes(stage, first, end) >= 1
        if end < ledger.layers:
            assert ledger.tokens(stage, first, end + 1, 2**30) <= ledger.tokens(stage, first, end, 2**30)


@given(served(), st.data())
def test_what_leaves_one_stage_arrives_on_its_neighbour(
    given_: tuple[dict[str, Any], Serving, tuple[int, ...]], data: st.DataObject
) -> None:
    """Moving a boundary keeps the sum of the weights, where no boundary is repaired."""
    config, serving, cut = given_
    ledger = Ledger(read_model(config), serving.model_copy(update={"repair": "none"}))
    total = sum(ledger.weights(*stage) for stage in starts(cut))
    order = data.draw(st.permutations(cut))
    assert sum(ledger.weights(*stage) for stage in starts(tuple(order))) == total


@given(served(), st.floats(1, 100))
def test_a_measurement_of_the_same_cut_is_taken_as_it_is(
    given_: tuple[dict[str, Any], Serving, tuple[int, ...]], available: float
) -> None:
    config, serving, cut = given_
    ledger = Ledger(read_model(config), serving)
    stages = tuple(MeasuredStage(available_kv_gib=available, cuda_graph_gib=0.5) for _ in cut)
    measured = Measured(partition=cut, stages=stages)
    assert [measured.available(ledger, *stage) for stage in starts(cut)] == [round(available * 2**30)] * len(cut)


@given(served())
def test_every_tp_rank_together_holds_at_least_the_checkpoint(
    given_: tuple[dict[str, Any], Serving, tuple[int, ...]],
) -> None:
    """What is not replicated adds up to the checkpoint; replicas only come on top."""
    config, serving, cut = given_
    model = read_model(config)
    ledger = Ledger(model, serving)
    drafts = 0 if ledger.drafts else sum(layer.weights.stored for layer in model.drafts if layer.weights)
    unused = drafts + (len(model.drafts) * model.indexer.stored if model.indexer and drafts else 0)
    assert serving.tp * sum(ledger.weights(*stage) for stage in starts(cut)) >= model.stored - unused
