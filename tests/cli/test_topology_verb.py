"""`fleet topology FILE`, on files as other programs write them."""

from pathlib import Path

import pytest

from tests.cli.offline_fleet import PROJECT, fleet

SAVED = PROJECT / "lab" / "recordings" / "a100" / "topo.txt"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_topology_that_powershell_saved_is_the_same_topology(encoding: str, tmp_path: Path) -> None:
    copy = tmp_path / "topo.txt"
    copy.write_text(SAVED.read_text(), encoding=encoding, newline="\r\n")
    said = fleet("topology", copy, "--json")
    assert (said.code, said.json) == (0, fleet("topology", SAVED, "--json").json)
    assert said.json["islands"] == [[0, 1], [2, 3], [4, 5], [6, 7]]


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="/dev/zero is Unix's")
def test_a_file_without_an_end_is_refused() -> None:
    said = fleet("topology", "/dev/zero")
    assert (said.code, said.err) == (1, "/dev/zero: want at most 4 MiB, found more: that is no topology\n")


def test_half_a_character_at_the_end_of_such_a_file_is_no_traceback(tmp_path: Path) -> None:
    copy = tmp_path / "topo.txt"
    copy.write_bytes(SAVED.read_text().encode("utf-16")[:-1])
    assert fleet("topology", copy, "--json").code == 0
