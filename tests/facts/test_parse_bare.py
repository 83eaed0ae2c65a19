"""What a bootstrap reads of a machine: files by mode, owner and kind, whatever their names."""

import pytest

from facts.parse.bare import read_bare
from facts.parse.frames import Section
from fleet.nodes.bare import Entry


def read(*lines: str) -> dict[str, Entry]:
    return read_bare(Section(text="\n".join(lines), code=0)).entries


@pytest.mark.parametrize(
    ("line", "path", "entry"),
    [
        ("644_root:root_regular_file /etc/a b", "/etc/a b", Entry("644", "root:root", "regular file", "f" * 64)),
        (
            "600_my_user:my_group_regular_empty_file /x",
            "/x",
            Entry("600", "my_user:my_group", "regular empty file", None),
        ),
        ("755_vllm:vllm_directory_by_link /srv", "/srv", Entry("755", "vllm:vllm", "directory by link", None)),
        ("755_root:root_directory /srv", "/srv", Entry("755", "root:root", "directory", None)),
    ],
)
def test_a_file_is_told_by_mode_owner_and_kind(line: str, path: str, entry: Entry) -> None:
    assert read(f"entry {line}", f"content {'f' * 64}  /etc/a b") == {path: entry}


@pytest.mark.parametrize(
    "line", ["644_root:root /etc/a", "stat: cannot statx /etc/a", "644 /etc/a", "_ /", "644_root:root_file"]
)
def test_a_line_in_another_form_is_no_file(line: str) -> None:
    assert read(f"entry {line}") == {}
