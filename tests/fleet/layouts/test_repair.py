"""A boundary without indices: a cheap aligned cut, else the engine's pattern, else a patch, else refused."""

from itertools import accumulate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.layouts.boundary import Partition, orphans
from fleet.layouts.repair import (
    CARRIES_INDICES,
    PATCH,
    Repair,
    Unrepaired,
    first_layers,
    overrides_with,
    pattern_for,
    repair,
    repaired_sharing,
)
from fleet.model.architecture import Architecture, IndexSharing, read_architecture
from fleet.policy import BoundaryPolicy
from tests.fleet.builders import GLM, LLAMA, patch

MODEL = read_architecture(GLM)
ALL = frozenset(range(78))
POOLS = {(41, 37): 729_280, (42, 36): 665_103, (38, 40): 550_000, (39, 39): 597_760, (34, 44): 500_000}
"""KV tokens: 42,36 costs 8.80 % against 41,37 (see docs/boundary.md)."""


def pool(cut: Partition, sharing: IndexSharing) -> int | None:
    return POOLS.get(cut, 400_000)


def done(cut: Partition, model: Architecture = MODEL, **given: Any) -> Repair | Unrepaired | None:
    policy = BoundaryPolicy(**{name: given.pop(name) for name in ("repair", "max_pool_loss") if name in given})
    arguments = {"engine": "0.30.0", "indexers": ALL, "patches": (patch(PATCH),)} | given
    return repair(cut, model, policy=policy, **arguments)


def repaired(cut: Partition, **given: Any) -> Repair:
    answer = done(cut, **given)
    assert isinstance(answer, Repair), answer
    return answer


def reasons(cut: Partition, **given: Any) -> str:
    answer = done(cut, **given)
    assert isinstance(answer, Unrepaired), answer
    return "\n".join(answer.reasons)


@pytest.mark.parametrize(
    ("cut", "layers"),
    [
        ((39, 39), (39,)),
        ((40, 38), (40,)),
        ((41, 37), (41,)),
        ((42, 36), ()),
        ((45, 33), (45,)),
        ((20, 20, 20, 18), (20, 40, 60)),
        ((19, 20, 20, 19), (19, 39, 59)),
        ((22, 20, 20, 16), ()),
        ((39, 2, 37), (39, 41)),
        ((78,), ()),
    ],
)
def test_the_pattern_makes_one_layer_more_compute_on_each_misaligned_stage(
    cut: Partition, layers: tuple[int, ...]
) -> None:
    pattern = pattern_for(cut, MODEL)
    assert first_layers(cut, MODEL) == layers and len(pattern) == 78
    computing = {layer for layer, letter in enumerate(pattern) if letter == "F"}
    assert computing == {0, 1, 2, *range(6, 78, 4)} | set(layers)
    fixed = MODEL.model_copy(update={"index_sharing": repaired_sharing(cut, MODEL)})
    assert orphans(cut, fixed) == ()
    assert fixed.index_sharing is not None and fixed.index_sharing.computes(78)  # the MTP layer builds its own


@given(
    st.lists(st.integers(0, 12), min_size=2, max_size=6).filter(lambda cut: sum(cut) > 0),
    st.integers(1, 5),
    st.integers(1, 4),
)
def test_no_partition_has_an_orphan_once_repaired_and_no_computing_layer_is_lost(
    cut: list[int], freq: int, offset: int
) -> None:
    config = GLM | {"num_hidden_layers": sum(cut), "index_topk_freq": freq, "index_skip_topk_offset": offset}
    model = read_architecture(config)
    fixed = model.model_copy(update={"index_sharing": repaired_sharing(tuple(cut), model)})
    assert orphans(tuple(cut), fixed) == ()
    before, after = model.index_sharing, fixed.index_sharing
    assert before is not None and after is not None
    more = {layer for layer in range(sum(cut)) if after.computes(layer) and not before.computes(layer)}
    assert all(after.computes(layer) for layer in range(sum(cut)) if before.computes(layer))
    assert more == set(first_layers(tuple(cut), model)) <= set(accumulate(cut))


def test_an_aligned_cut_that_costs_too_much_is_rejected_with_the_figure_and_the_pattern_taken() -> None:
    found = repaired((41, 37), pool=pool)
    assert (found.kind, found.partition, found.layers) == ("pattern", (41, 37), (41,))
    assert found.rejected == ("the aligned 42,36 costs 8.80 % of the pool, boundary.max_pool_loss is 5.00 %",)
    assert "41,37 repaired: index_topk_pattern makes layer 41 compute (the aligned 42,36 costs 8.80 %" in str(found)


def test_an_aligned_cut_that_costs_little_enough_is_taken() -> None:
    found = repaired((41, 37), pool=pool, max_pool_loss=0.09)
    assert (found.kind, found.partition, found.pattern) == ("aligned", (42, 36), None)
    assert str(found) == "41,37 was cut as 42,36 instead, which costs 8.80 % of the pool"
    better = repaired((39, 39), pool=pool)  # 42,36 has the larger pool: that costs nothing
    assert (better.partition, better.pool_loss) == ((42, 36), 0)
    assert str(better) == "39,39 was cut as 42,36 instead, at no cost of the pool"


def test_the_pool_of_the_cut_that_was_asked_for_is_that_with_the_repair() -> None:
    seen: dict[Partition, str | None] = {}

    def remember(cut: Partition, sharing: IndexSharing) -> int:
        seen[cut] = sharing.pattern
        return 1000

    repaired((41, 37), pool=remember)
    assert seen[41, 37] == pattern_for((41, 37), MODEL) and seen[42, 36] is None


def test_without_figures_an_aligned_cut_is_not_taken() -> None:
    for none in (None, lambda cut, sharing: None):
        found = repaired((41, 37), pool=none)
        assert found.kind == "pattern"
        assert found.rejected == ("what the aligned 42,36 would cost of the pool is not known",)


def test_a_layer_without_indexer_weights_is_not_made_to_compute() -> None:
    shipped = frozenset({0, 1, 2, *range(6, 78, 4)})
    text = reasons((41, 37), indexers=shipped, pool=pool)
    assert text.splitlines() == [
        "the aligned 42,36 costs 8.80 % of the pool, boundary.max_pool_loss is 5.00 %",
        "the checkpoint has no indexer weights of layer 41",
    ]
    assert repaired((41, 37), indexers=shipped, pool=pool, max_pool_loss=0.1).kind == "aligned"
    assert "no indexer weights of layer 20, 60" in reasons((20, 20, 20, 18), indexers=shipped | {40})


def test_unknown_tensor_names_are_not_taken_for_present() -> None:
    text = reasons((41, 37), indexers=None, no_indexers="no model.safetensors.index.json")
    assert "indexer weights of layer 41 is not known: no model.safetensors.index.json" in text


def test_the_owner_may_name_the_way() -> None:
    assert repaired((41, 37), repair="patch", pool=pool).patch == patch(PATCH)
    assert repaired((41, 37), repair="patch").layers == (41,)
    assert repaired((41, 37), repair="pattern", pool=pool, max_pool_loss=1).kind == "pattern"
    assert "costs 8.80 %" in reasons((41, 37), repair="aligned", pool=pool)
    assert done((41, 37), repair="none") is None


def test_a_patch_for_another_version_is_none() -> None:
    text = reasons((41, 37), repair="patch", engine="0.34.0")
    assert "want index-boundary for engine 0.34.0, found it for 0.30.0" in text
    assert "found no 'index-boundary'" in reasons((41, 37), repair="patch", patches=())


def test_a_class_that_does_not_read_the_pattern_is_not_given_one() -> None:
    other = read_architecture(GLM | {"model_type": "minimax_m3"})
    text = reasons((41, 37), model=other)
    assert "not known to obey index_topk_pattern for minimax_m3" in text
    assert "does not change the classes of minimax_m3" in text


def test_a_class_that_carries_indices_across_stages_needs_no_repair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CARRIES_INDICES, "0.35", ("glm_moe_dsa",))
    assert done((41, 37), engine="0.35.1") is None
    assert repaired((41, 37), engine="0.34.0").kind == "pattern"
    assert repaired((41, 37), engine="0.3").kind == "pattern"


@pytest.mark.parametrize("cut", [(78,), (42, 36), (22, 20, 20, 16)])
def test_what_needs_no_repair_gets_none(cut: Partition) -> None:
    assert done(cut, pool=pool) is None
    assert done((40, 40), model=read_architecture(LLAMA)) is None


def test_the_pattern_goes_where_the_language_model_stands() -> None:
    assert overrides_with({"a": 1}, False, "FS") == {"a": 1, "index_topk_pattern": "FS"}
    assert overrides_with({"a": 1}, True, "FS") == {"a": 1, "text_config": {"index_topk_pattern": "FS"}}
    assert overrides_with({"text_config": {"b": 2}}, True, "FS") == {
        "text_config": {"b": 2, "index_topk_pattern": "FS"}
    }
