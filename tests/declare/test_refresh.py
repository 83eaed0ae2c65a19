"""NODE.yaml gets new values, and nothing else in it changes."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from declare.refresh import flow, refreshed

OWNER = """# The owner's words.
address: 10.0.0.1     # do not touch
groups: [a100]

gpus: {count: 8, model: NVIDIA A100-SXM4-80GB, memory_mib: 81920}    # as nvidia-smi prints them
# Bridges.
nvlink_islands: [[0, 1], [2, 3]]   # pairs
numa:
  - 0   # first
  - 0
  - 1
services:
  glm: {port: 8001}
"""


def test_only_the_value_changes_and_comments_stay() -> None:
    text = refreshed(
        OWNER,
        {"nvlink_islands": [[0, 1, 2, 3]], "gpus": {"count": 4, "model": "NVIDIA A100-SXM4-80GB", "memory_mib": 81920}},
    )
    want = OWNER.replace("[[0, 1], [2, 3]]", "[[0, 1, 2, 3]]").replace("count: 8", "count: 4")
    assert text == want


def test_a_list_of_several_lines_becomes_one() -> None:
    text = refreshed(OWNER, {"numa": [0, None]})
    assert "numa: [0, null]\nservices:" in text and yaml.safe_load(text)["numa"] == [0, None]


def test_a_field_that_is_not_there_is_added_at_the_end() -> None:
    assert refreshed("address: x", {"numa": [0]}) == "address: x\nnuma: [0]\n"


def test_mappings_of_several_lines_change_entry_by_entry() -> None:
    text = "gpus:\n  # which\n  count: 8\n  model: X   # old\n  memory_mib: 5\nnuma: []\n"
    told = refreshed(text, {"gpus": {"count": 8, "model": "Y: #1", "memory_mib": 5}, "numa": [1]})
    assert told == 'gpus:\n  # which\n  count: 8\n  model: "Y: #1"   # old\n  memory_mib: 5\nnuma: [1]\n'


def test_what_is_no_mapping_is_refused() -> None:
    with pytest.raises(ValueError, match="want a mapping"):
        refreshed("- a", {"numa": []})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text("aé:#'\"[]{},- \n", max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.dictionaries(st.sampled_from(["address", "gpus", "numa", "services"]), VALUES, max_size=4)


@given(FIELDS, FIELDS, st.booleans())
def test_any_yaml_says_the_new_values_and_keeps_the_others(
    old: dict[str, Any], new: dict[str, Any], flat: bool
) -> None:
    text = "# head\n" + yaml.safe_dump(old, default_flow_style=flat, allow_unicode=True, sort_keys=False)
    if not old:
        text = "other: 1\n"
    told = yaml.safe_load(refreshed(text, new))
    assert told == {**yaml.safe_load(text), **new}


@given(VALUES)
def test_a_value_stands_on_one_line(value: Any) -> None:
    assert yaml.safe_load(f"x: {flow(value)}\n") == {"x": value} and "\n" not in flow(value)
