"""Source changes: an anchor once, exact bytes, several patches on one file; all else is refused with its place."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fleet.engines.patch import Patch, PatchError, apply, files_of, find_patch, full_version, patched

SOURCE = """import os


class Buffer:
    def __init__(self, size):
        self.size = size
        if size > 4:
            self.large = True

    def reset(self):
        self.size = 0
"""
SUM = hashlib.sha256(SOURCE.encode()).hexdigest()
PATH = "vllm/buffer.py"


def edit(anchor: str, fragment: str = "pass", place: str = "after") -> dict[str, str]:
    return {"anchor": anchor, "fragment": fragment, "place": place}


def patch(*edits: dict[str, str], name: str = "one", path: str = PATH, **sums: str) -> Patch:
    file = {"path": path, "sha256": sums or {"0.30.0": SUM}, "edits": list(edits)}
    return Patch.model_validate({"name": name, "why": "a reason", "tested": "not at all", "files": [file]})


def result(*patches: Patch, source: str = SOURCE) -> str:
    return patched(PATH, source.encode(), [(one, file) for one in patches for file in one.files])


def refusal(*patches: Patch, source: str = SOURCE, engine: str = "0.30.0") -> str:
    with pytest.raises(PatchError) as caught:
        apply(PATH, source.encode(), engine, patches)
    return str(caught.value)


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        ("after", "        self.size = size\n        self.step = 1\n        if size > 4:\n"),
        ("before", "(self, size):\n        self.step = 1\n        self.size = size\n"),
        ("instead", "(self, size):\n        self.step = 1\n        if size > 4:\n"),
    ],
)
def test_a_fragment_stands_at_its_place_with_the_anchors_indentation(place: str, wanted: str) -> None:
    assert wanted in result(patch(edit("self.size = size\n", "self.step = 1\n", place)))


def test_an_anchor_of_several_lines_keeps_the_shape_between_them() -> None:
    done = result(patch(edit("if size > 4:\n    self.large = True\n", "self.done = True")))
    assert "            self.large = True\n        self.done = True\n\n    def reset" in done
    nested = refusal(patch(edit("if size > 4:\nself.large = True\n")))
    assert "'if size > 4:' once, found it nowhere" in nested


def test_an_anchor_may_begin_deeper_than_it_ends() -> None:
    done = result(patch(edit("        self.large = True\n\ndef reset(self):", "# ours", "after")))
    assert "            self.large = True\n\n    def reset(self):\n    # ours\n        self.size = 0\n" in done


def test_the_file_is_bound_by_its_bytes() -> None:
    done = apply(PATH, SOURCE.encode(), "0.30.0+cu129", [patch(edit("import os"))])
    assert done.pristine == SUM and done.sha256 == hashlib.sha256(done.text.encode()).hexdigest() != SUM
    assert done.patches == ("one",)
    text = refusal(patch(edit("import os")), source=SOURCE + "\n")
    assert f"want the file of engine 0.30.0 ({SUM})" in text and "fleet patch check" in text


def test_applying_to_the_result_is_refused_and_applying_to_the_image_again_is_the_same() -> None:
    one = patch(edit("import os"))
    first, again = (apply(PATH, SOURCE.encode(), "0.30.0", [one]) for _ in range(2))
    assert first == again
    assert "is the image changed already" in refusal(one, source=first.text)


def test_another_version_is_refused() -> None:
    assert "one is not for engine 0.31.0 (it is for 0.30.0)" in refusal(patch(edit("import os")), engine="0.31.0")


def test_an_anchor_that_is_nowhere_or_twice_is_refused_with_its_lines() -> None:
    assert "vllm/buffer.py: one, edit 2: want the anchor 'import sys' once, found it nowhere" in refusal(
        patch(edit("import os"), edit("import sys"))
    )
    source = SOURCE + "import os\n"
    own = patch(edit("import os"), **{"0.30.0": hashlib.sha256(source.encode()).hexdigest()})
    twice = refusal(own, source=source)
    assert "found it 2 times (lines 1, 12)" in twice and "give the anchor more lines" in twice


def test_part_of_a_line_is_no_anchor() -> None:
    assert "found it nowhere" in refusal(patch(edit("self.size")))


def test_patches_on_one_file_become_one_chain_in_their_order() -> None:
    one, two = patch(edit("import os", "import sys")), patch(edit("import os", "import re"), name="two")
    third = patch(edit("self.size = 0", "self.size = 1", "instead"), name="third")
    assert result(one, two, third).startswith("import os\nimport sys\nimport re\n")
    assert result(two, one).startswith("import os\nimport re\nimport sys\n")
    assert apply(PATH, SOURCE.encode(), "0.30.0", [one, two, third]).patches == ("one", "two", "third")
    assert "self.size = 1\n" in result(one, two, third)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (edit("self.size = size", "a", "instead"), edit("self.size = size", "b", "instead")),
        (edit("self.size = size", "a", "instead"), edit("self.size = size", "b", "after")),
        (edit("self.size = size", "a", "before"), edit("self.size = size", "b", "instead")),
        (edit("self.size = size\nif size > 4:\n", "a", "instead"), edit("if size > 4:", "b", "before")),
        (edit("self.size = size\nif size > 4:\n", "a", "before"), edit("if size > 4:", "b", "before")),
    ],
)
def test_two_patches_that_want_the_same_lines_are_refused(first: dict[str, str], second: dict[str, str]) -> None:
    for order in (1, -1):
        text = refusal(*[patch(first), patch(second, name="two")][::order])
        assert (
            "both want line" in text and "one, edit 1" in text and "two, edit 1" in text and "write one patch" in text
        )


def test_a_line_that_is_replaced_and_a_line_put_before_it_do_not_disturb_each_other() -> None:
    one = patch(edit("self.size = size", "self.first = 1"))
    two = patch(edit("if size > 4:\n    self.large = True\n", "self.small = True", "instead"), name="two")
    wanted = "        self.size = size\n        self.first = 1\n        self.small = True\n\n"
    assert wanted in result(one, two) and wanted in result(two, one)


def test_bytes_that_are_no_text_are_refused() -> None:
    raw = b"x = '\xff'\n"
    own = patch(edit("import os"), **{"0.30.0": hashlib.sha256(raw).hexdigest()})
    with pytest.raises(PatchError, match="want UTF-8, found byte 0xff at 5"):
        apply(PATH, raw, "0.30.0", [own])


@given(st.lists(st.sampled_from(["a = 1", "    b = 2", "", "c = 3", "        d = 4"]), max_size=12), st.data())
def test_what_is_not_an_anchor_or_a_fragment_stays_as_it_was(rest: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(rest)))
    indent = data.draw(st.sampled_from(["", "    ", "\t"]))
    lines = [*rest[:at], f"{indent}anchor()", *rest[at:]]
    done = result(patch(edit("anchor()", "ours()\n\nif x:\n    y()")), source="\n".join(lines)).split("\n")
    mine = [f"{indent}ours()", "", f"{indent}if x:", f"{indent}    y()"]
    assert done == [*lines[: at + 1], *mine, *lines[at + 1 :]]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"path": "/etc/passwd.py"}, "a Python file below"),
        ({"path": "vllm/../../etc.py"}, "a Python file below"),
        ({"path": "vllm/_C.so"}, "a Python file below"),
        ({"sha256": {"0.30": SUM}}, "full engine versions"),
        ({"sha256": {"0.30.0": "abc"}}, "64 hex digits"),
        ({"sha256": {}}, "at least 1"),
        ({"edits": []}, "at least 1"),
        ({"edits": [edit("  \n")]}, "whole lines"),
        ({"edits": [edit("x", place="near")]}, "'after', 'before' or 'instead'"),
    ],
)
def test_a_patch_that_cannot_be_meant_is_no_patch(wrong: dict[str, Any], text: str) -> None:
    file = {"path": PATH, "sha256": {"0.30.0": SUM}, "edits": [edit("import os")]} | wrong
    with pytest.raises(ValidationError, match=text):
        Patch.model_validate({"name": "one", "why": "a reason", "tested": "not at all", "files": [file]})


def test_every_file_of_a_patch_is_for_the_same_versions_and_there_once() -> None:
    good = {"path": PATH, "sha256": {"0.30.0": SUM}, "edits": [edit("import os")]}
    for other, text in (
        (good, "each file once"),
        (good | {"path": "vllm/b.py", "sha256": {"0.31.0": SUM}}, "0.31.0 for"),
    ):
        with pytest.raises(ValidationError, match=text):
            Patch.model_validate({"name": "one", "why": "a reason", "tested": "not at all", "files": [good, other]})


def test_a_patch_is_found_by_name_and_version_and_the_sites_own_comes_first() -> None:
    own, ours = patch(edit("import os", "own")), patch(edit("import os", "ours"), **{"0.30.0": SUM, "0.31.0": SUM})
    assert find_patch("one", "0.30", [own, ours]) is own
    assert find_patch("one", "0.31.0+cu130", [own, ours]) is ours
    with pytest.raises(PatchError, match=r"want one for engine 0.32.0, found it for 0.30.0, 0.31.0"):
        find_patch("one", "0.32.0", [own, ours])
    with pytest.raises(PatchError, match="found no 'other'; there are: one"):
        find_patch("other", "0.30.0", [own, ours])


def test_versions_are_in_their_order_and_a_digest_changes_with_a_fragment() -> None:
    many = patch(edit("import os"), **{"0.10.0": SUM, "0.9.2": SUM})
    assert many.versions == ("0.9.2", "0.10.0")
    assert patch(edit("import os", "a")).digest != patch(edit("import os", "b")).digest
    assert files_of([many, patch(edit("x"), path="vllm/a.py")]) == ("vllm/a.py", PATH)
    assert [full_version(v) for v in ("0.30", "0.30.1", "0.30.0+cu129", "0.31.0rc1")] == [
        "0.30.0",
        "0.30.1",
        "0.30.0",
        "0.31.0rc1",
    ]
