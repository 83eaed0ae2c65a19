"""What a file may look like before anybody asks what it means."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from declare.located import Located
from declare.problem import DeclarationError
from declare.reader import read_json, read_yaml

MALFORMED = {
    "an_empty_file": ("", "1: want a mapping, found an empty file"),
    "only_a_comment": ("# nothing\n", "1: want a mapping, found an empty file"),
    "a_list": ("- a\n", "1: want a mapping (field: value), found a list"),
    "a_word": ("hello\n", "1: want a mapping (field: value), found one scalar"),
    "an_open_bracket": ("a: 1\nb: [1, 2\n", "3: want well-formed YAML, found "),
    "a_tab": ("a:\n\tb: 1\n", "2: want well-formed YAML, found character "),
    "two_colons": ("a: b: c\n", "1: want well-formed YAML, found mapping values are not allowed "),
    "two_documents": ("a: 1\n---\nb: 1\n", "2: want well-formed YAML, found another document"),
    "a_key_twice": ("a: 1\nb: 2\na: 3\n", "3: a: want each key once, found it again (first on line 1)"),
    "an_inner_key_twice": ("a:\n  b: 1\n  b: 2\n", "3: a.b: want each key once, found it again (first on line 2)"),
    "a_list_as_a_key": ("? [1]\n: 2\n", "1: want text as a key, found a list or a mapping"),
    "an_alias": (
        "a: &x 1\nb: *x\n",
        "2: b: want the value itself (what is shared goes into group data), found an alias",
    ),
    "an_alias_to_itself": ("a: &x [*x]\n", "1: a[0]: want the value itself"),
    "a_tag": ("a: !secret x\n", "1: a: want plain YAML without tags, found the tag !secret"),
    "a_python_object": ("a: !!python/name:os.system x\n", "1: a: want plain YAML without tags, found the tag !!python"),
    "a_tag_that_lies": ("a: !!int x\n", "1: a: want plain YAML without tags, found the tag !!int"),
    "a_tagged_mapping": ("a: !!set {b: }\n", "1: a: want plain YAML without tags, found the tag !!set"),
    "latin_1": (b"a: 1\nb: caf\xe9\n", "2: want UTF-8 text, found the byte 0xe9"),
    "utf_16": ("a: 1\n".encode("utf-16"), "1: want UTF-8 text, found the byte 0xff"),
    "a_control_character": ("a: 1\nb: \x07\n", "2: want printable characters, found U+0007"),
    "an_alias_of_nothing": ("a: *x\n", "1: want well-formed YAML, found undefined alias"),
    "a_number_without_an_end": (
        "a: " + "9" * 5000,
        "1: a: want integers of at most 1000 digits, found one of 5000",
    ),
    "bottomless": ("a: " + "[" * 5000, ""),
}


@pytest.mark.parametrize(("content", "said"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_file_is_refused_with_its_line(tmp_path: Path, content: str | bytes, said: str) -> None:
    path = tmp_path / "n1.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DeclarationError) as refused:
        read_yaml(path)
    assert str(refused.value).startswith(f"{path}:{said}")


@pytest.mark.parametrize("read", [read_yaml, read_json])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, read: Callable[[Path], Located]) -> None:
    os.mkfifo(tmp_path / "n1.yaml")
    with pytest.raises(DeclarationError, match=r"n1\.yaml: want a readable file, found a pipe, a socket or a device"):
        read(tmp_path / "n1.yaml")


def test_words_that_yaml_1_1_took_for_values_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "n1.yaml"
    path.write_text("on: off\na: 1:30\nb: 2024-01-01\nc: 1_000\nd: .nan\ne: =\n")
    assert read_yaml(path).plain() == {
        "on": "off", "a": "1:30", "b": "2024-01-01", "c": "1_000", "d": ".nan", "e": "="
    }  # fmt: skip


def test_scalars_are_those_of_the_core_schema(tmp_path: Path) -> None:
    path = tmp_path / "n1.yaml"
    path.write_text("a: [1, -2, 0x10, 0o17, 1.5, .5, 1e3, true, False, null, ~, '1', \"true\"]\nb:\n")
    assert read_yaml(path).plain() == {
        "a": [1, -2, 16, 15, 1.5, 0.5, 1000.0, True, False, None, None, "1", "true"],
        "b": None,
    }


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "n1.yaml"
    path.write_bytes("address: ä\n".encode("utf-8-sig"))
    assert read_yaml(path).plain() == {"address": "ä"}


def test_every_value_knows_its_line(tmp_path: Path) -> None:
    path = tmp_path / "n1.yaml"
    path.write_text("a:\n  b:\n    - c: 1\n    - d: >\n        folded\n")
    tree = read_yaml(path)
    b = tree.get("a").get("b")
    assert [entry.origin.line for entry in b.value] == [3, 4]
    assert b.value[1].get("d").origin.field == "a.b[1].d"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"a": 1,\n "b": }', ":2: want well-formed JSON, found Expecting value (column 7)"),
        ("[1]", ": want a JSON object, found [1]"),
        ('{"a": 1, "a": 2}', ": a: want each key once, found it twice"),
        ("", ":1: want well-formed JSON"),
        ('{"a": NaN}', ": want numbers that are JSON, found NaN"),
        ('{"a": -Infinity}', ": want numbers that are JSON, found -Infinity"),
        ('{"a": ' + "9" * 5000 + "}", ": want integers of at most 1000 digits, found one of 5000"),
        ("[" * 100_000, ": want a JSON object, found JSON that is nested too deep"),
    ],
)
def test_malformed_json_is_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(content)
    with pytest.raises(DeclarationError) as refused:
        read_json(path)
    assert str(refused.value).startswith(f"{path}{said}")
