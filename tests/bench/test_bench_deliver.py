"""The delivery bench's own arithmetic and texts. Nothing is measured here."""

import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.deliver import CONTESTANTS, SHARDS, Ground, arguments, checkpoint, disks_for
from lab.host import LabError
from lab.naming import NodeName


def ground(tmp_path: Path, rate: float | None = None) -> Ground:
    lab = SimpleNamespace(nodes=(NodeName("a1", "10.9.0.11", "a100"), NodeName("h1", "10.9.0.12", "h100")))
    site = SimpleNamespace(lab=lab, access=lambda: {"key": "/k ey", "known_hosts": "/known hosts"})
    return Ground(site, tmp_path / "source", tmp_path / "fleet", rate)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "words", [["--hosts", "1"], ["--hosts", "101"], ["--mib", "1"], ["--only", "chef"], ["--turns", "0"]]
)
def test_a_wrong_argument_ends_with_the_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments(words)
    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_the_checkpoint_has_its_size_and_no_two_blocks_alike(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "source", 2 * SHARDS)
    shards = sorted(folder.glob("*.safetensors"))
    assert [path.stat().st_size for path in shards] == [2 << 20] * SHARDS
    blocks = [path.read_bytes()[at : at + (1 << 20)] for path in shards for at in (0, 1 << 20)]
    assert len(set(blocks)) == len(blocks)


@pytest.mark.parametrize("name", ["rsync, one after the other", "rsync, all at once"])
def test_the_plain_loop_reaches_every_host_and_stops_where_one_fails(name: str, tmp_path: Path) -> None:
    program, flag, text = CONTESTANTS[name](ground(tmp_path, rate=2))
    assert (program, flag) == ("bash", "-c")
    assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0
    lines = text.splitlines()
    assert len(lines) == 3 and all("--bwlimit=2048" in line for line in lines[:2])
    assert "'/k ey'" in shlex.split(lines[0])[4]
    assert lines[0].endswith(" || exit 1" if "after" in name else " &")


def test_hosts_that_do_not_fit_into_memory_lie_on_the_disk_unless_that_is_too_small(
    tmp_path: Path,
) -> None:
    assert disks_for(2, 8, tmp_path) is None
    assert disks_for(2, 1025, tmp_path) == tmp_path / ".lab" / "bench-disks"
    with pytest.raises(LabError, match="on the disk for 100 hosts"):
        disks_for(100, 1 << 20, tmp_path)
