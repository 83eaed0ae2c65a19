"""bash forgets how a process behind `<(` ended that ended before bash had noted it: about one of a thousand quick ones.

A refused rollout, or a good release that is undone, would come of it. Without its mend a test fails 19 times of 20.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.standin.process import PROJECT

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="runs the bash of the node")
NODE, SECTIONS = PROJECT / "operations/node", PROJECT / "facts/sections"
CALLS = 2000


@pytest.mark.parametrize(
    ("program", "files", "call"),
    [
        ("systemctl", (NODE / "10-ground.sh", NODE / "40-switch.sh"), "await_job restart vllm-chat.service 0"),
        ("nvidia-smi", (SECTIONS / "frame.sh", SECTIONS / "gpus.sh"), "section_gpus"),
    ],
)
def test_a_quick_answer_is_never_taken_for_a_failure(
    tmp_path: Path, program: str, files: tuple[Path, ...], call: str
) -> None:
    (tmp_path / program).symlink_to(shutil.which("true") or "/bin/true")
    variables = "nonce=n gpu_fields=index busy_mib=100"
    loop = f"for ((i = 0; i < {CALLS}; i++)); do {call} || printf 'call %d answered %d\\n' $i $?; done"
    done = subprocess.run(
        [
            "bash",
            "-c",
            f'{variables}; for file; do source "$file"; done; PATH={tmp_path}:$PATH; {loop}',
            "bash",
            *files,
        ],
        capture_output=True,
        text=True,
        env=dict(os.environ),
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
