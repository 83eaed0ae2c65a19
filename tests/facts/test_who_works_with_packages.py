"""Who has apt's or dpkg's locks for a while, by the name of its process; and who only looks as if."""

import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from lab.standin.process import PROJECT

pytestmark = pytest.mark.skipif(not Path("/proc/self/comm").exists(), reason="reads /proc")
SECTION = PROJECT / "facts" / "sections" / "bare.sh"


def told(tmp_path: Path, *programs: str) -> int:
    """Lines about processes of these names, which run meanwhile; others of this machine are not counted."""

    def lines() -> int:
        done = subprocess.run(
            ["bash", "-uc", f"source {SECTION}; bare_archives"], capture_output=True, text=True, check=True
        )
        assert not done.stderr
        return done.stdout.count("packaging unattended-upgr\n")

    before = lines()
    with ExitStack() as stack:
        for name in programs:
            program = tmp_path / name
            program.symlink_to(shutil.which("bash") or "/bin/bash")
            # It waits for its stdin; its name is that of the link, as the kernel cuts it.
            started = stack.enter_context(
                subprocess.Popen([program, "-c", "echo; read"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            assert started.stdout is not None and started.stdout.readline() == b"\n"
        return lines() - before


def test_an_upgrade_at_work_is_told_and_its_guard_which_always_runs_is_not(tmp_path: Path) -> None:
    assert told(tmp_path, "unattended-upgrade-shutdown") == 0
    assert told(tmp_path, "unattended-upgrade") == 1
