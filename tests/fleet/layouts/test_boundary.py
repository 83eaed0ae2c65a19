"""Partitions, and the layers that a cut leaves without indices."""

from itertools import accumulate, combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.layouts.boundary import boundaries, even_partition, nearest_aligned, orphans
from fleet.model.architecture import Architecture, IndexSharing, read_architecture
from tests.fleet.builders import GLM, LLAMA

MODEL = read_architecture(GLM)


@pytest.mark.parametrize(
    ("layers", "stages", "counts"),
    [
        (78, 1, (78,)),
        (78, 2, (39, 39)),
        (78, 4, (19, 20, 20, 19)),
        (80, 4, (20, 20, 20, 20)),
        (61, 2, (31, 30)),
        (61, 4, (15, 15, 16, 15)),
        (79, 4, (20, 20, 20, 19)),
        (3, 4, (1, 1, 1, 0)),
    ],
)
def test_the_even_split_is_the_engines(layers: int, stages: int, counts: tuple[int, ...]) -> None:
    assert even_partition(layers, stages) == counts


@given(st.integers(1, 200), st.integers(1, 16))
def test_an_even_split_loses_no_layer_and_never_gives_the_last_stage_more(layers: int, stages: int) -> None:
    counts = even_partition(layers, stages)
    assert (len(counts), sum(counts)) == (stages, layers)
    assert max(counts) - min(counts) <= 1
    assert counts[-1] == layers // stages


@pytest.mark.parametrize(
    ("parts", "orphaned"),
    [
        ((78,), []),
        ((39, 39), [(1, (39, 40, 41), 38)]),
        ((40, 38), [(1, (40, 41), 38)]),
        ((41, 37), [(1, (41,), 38)]),
        ((42, 36), []),
        ((45, 33), [(1, (45,), 42)]),
        ((38, 40), []),
        ((22, 20, 20, 16), []),
        ((18, 20, 20, 20), []),
        ((20, 20, 20, 18), [(1, (20, 21), 18), (2, (40, 41), 38), (3, (60, 61), 58)]),
        ((39, 0, 39), [(2, (39, 40, 41), 38)]),
        ((39, 2, 37), [(1, (39, 40), 38), (2, (41,), 38)]),
    ],
)
def test_orphans_are_the_layers_that_the_real_classes_leave_without_indices(
    parts: tuple[int, ...], orphaned: list[tuple[int, tuple[int, ...], int]]
) -> None:
    assert [(found.stage, found.layers, found.source) for found in orphans(parts, MODEL)] == orphaned


def test_a_model_without_sharing_has_no_orphans_and_needs_no_alignment() -> None:
    llama = read_architecture(LLAMA)
    assert orphans((41, 39), llama) == ()
    assert nearest_aligned((41, 39), llama) == ()


def test_computing_layers_are_the_21_of_the_engine() -> None:
    assert MODEL.index_sharing is not None
    computing = [layer for layer in range(78) if MODEL.index_sharing.computes(layer)]
    assert computing == [0, 1, *range(2, 78, 4)]
    assert len(computing) == 21


def test_a_pattern_overrides_the_formula_and_computes_past_its_end() -> None:
    sharing = IndexSharing(freq=4, offset=3, pattern="FSXs")
    assert [sharing.computes(layer) for layer in range(6)] == [True, False, True, True, True, True]


def test_the_nearest_aligned_partitions_come_nearest_first() -> None:
    assert nearest_aligned((41, 37), MODEL) == ((42, 36), (38, 40), (46, 32))
    assert nearest_aligned((39, 39), MODEL, most=1) == ((38, 40),)
    assert nearest_aligned((42, 36), MODEL, most=2) == ((42, 36), (38, 40))
    assert nearest_aligned((20, 20, 20, 18), MODEL, most=1) == ((18, 20, 20, 20),)


def test_an_aligned_partition_is_named_where_stages_are_crowded() -> None:
    assert nearest_aligned((3, 1, 1, 73), MODEL, most=1) == ((1, 1, 4, 72),)


def test_no_partition_is_named_where_none_is_aligned() -> None:
    once = Architecture(
        model_type="x", layers=8, attention_heads=8, index_sharing=IndexSharing(freq=4, offset=3, pattern="F" + "S" * 7)
    )
    assert nearest_aligned((4, 4), once) == ()


@st.composite
def index_sharing_models(draw: st.DrawFn) -> Architecture:
    layers = draw(st.integers(2, 60))
    sharing = IndexSharing(freq=draw(st.integers(1, 6)), offset=draw(st.integers(1, 5)))
    if draw(st.booleans()):
        letters = draw(st.lists(st.sampled_from("FS"), max_size=layers))
        sharing = IndexSharing(freq=1, offset=1, pattern="F" + "".join(letters))
    return Architecture(model_type="x", layers=layers, attention_heads=8, index_sharing=sharing)


@st.composite
def cut_models(draw: st.DrawFn) -> tuple[Architecture, tuple[int, ...]]:
    model = draw(index_sharing_models())
    stages = draw(st.integers(1, min(6, model.layers)))
    starts = draw(st.lists(st.integers(1, model.layers - 1), min_size=stages - 1, max_size=stages - 1, unique=True))
    return model, tuple(b - a for a, b in pairwise((0, *sorted(starts), model.layers)))


def fixed(model: Architecture, flips: set[int]) -> Architecture:
    """The model with a pattern in which these layers compute too."""
    sharing = model.index_sharing
    assert sharing is not None
    pattern = "".join("F" if sharing.computes(layer) or layer in flips else "S" for layer in range(model.layers))
    return model.model_copy(update={"index_sharing": IndexSharing(freq=4, offset=3, pattern=pattern)})


@given(cut_models())
def test_orphans_follow_the_first_layer_of_their_stage_and_share(case: tuple[Architecture, tuple[int, ...]]) -> None:
    model, parts = case
    sharing = model.index_sharing
    assert sharing is not None
    starts = boundaries(parts)
    ends = tuple(accumulate(parts))
    for found in orphans(parts, model):
        first = starts[found.stage - 1]
        assert found.layers == tuple(range(first, first + len(found.layers)))
        assert not any(sharing.computes(layer) for layer in found.layers)
        after = found.layers[-1] + 1
        assert after == ends[found.stage] or sharing.computes(after)
        assert sharing.computes(found.source) and found.source < first
    misaligned = {stage for stage, first in enumerate(starts, 1) if not sharing.computes(first)}
    assert {found.stage for found in orphans(parts, model)} == misaligned


@given(cut_models().filter(lambda case: case[0].layers <= 12))
def test_no_aligned_partition_is_nearer_than_those_named(case: tuple[Architecture, tuple[int, ...]]) -> None:
    model, parts = case

    def distance(other: tuple[int, ...]) -> int:
        return sum(abs(a - b) for a, b in zip(boundaries(other), boundaries(parts), strict=True))

    starts = combinations(range(1, model.layers), len(parts) - 1)
    every = [tuple(b - a for a, b in pairwise((0, *chosen, model.layers))) for chosen in starts]
    aligned = [other for other in every if not orphans(other, model)]
    found = nearest_aligned(parts, model)
    assert set(found) <= set(aligned) and len(set(found)) == len(found) == min(3, len(aligned))
    assert [*map(distance, found)] == sorted(map(distance, aligned))[:3]


@given(cut_models())
def test_a_pattern_in_which_each_first_layer_computes_leaves_no_orphan(
    case: tuple[Architecture, tuple[int, ...]],
) -> None:
    model, parts = case
    assert orphans(parts, fixed(model, set(boundaries(parts)))) == ()
