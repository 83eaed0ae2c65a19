"""Every parser on damaged real outputs and on anything else: no crash, no hang, no silent pass. `make fuzz` is long."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import ROOT, TARGETS, seeds

EXAMPLES = int(os.environ.get("VLLM_FLEET_FUZZ_EXAMPLES", "25"))
WORDS = [
    "ERR!",
    "[Unknown Error]",
    "[GPU requires reset]",
    "N/A",
    "\x1b[4m",
    "9" * 5000,
    "-1",
    "{",
    "}",
    "=",
    ",",
    "\t",
]
NOISE = st.text(max_size=40) | st.sampled_from([*WORDS, "\0", "\u00b2", "\u0661"])
"""What stands where a value was wanted; the last two are digits to Python and to nobody else."""


@st.composite
def damaged(draw: st.DrawFn, name: str) -> str:
    """A real text with lines taken out, doubled, cut, moved or replaced."""
    lines = draw(st.sampled_from(seeds(name) or [""])).split("\n")
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(0, len(lines) - 1)))
        line = lines[at] if lines else ""
        cut = draw(st.integers(0, len(line)))
        other = draw(st.sampled_from(["", line[:cut], f"{line[:cut]}\n{line[cut:]}", f"{line}\n{line}"]) | NOISE)
        lines[at : at + 1] = [draw(st.sampled_from([other, f"{line[:cut]}{other}{line[cut:]}"]))]
    return "\n".join(lines)


@pytest.mark.parametrize("name", TARGETS)
def test_a_damaged_or_strange_text_is_read_or_refused(name: str) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(damaged(name) | st.text())
    def run(text: str) -> None:
        TARGETS[name][0](text)

    run()


@pytest.mark.parametrize("name", TARGETS)
def test_a_real_text_is_read(name: str) -> None:
    for text in seeds(name):
        TARGETS[name][0](text)


def test_every_parser_of_what_a_node_prints_is_among_the_targets() -> None:
    text = "".join((ROOT / "tests" / "fuzz" / name).read_text() for name in ("machine.py", "service.py"))
    # Parts of a topology's parser, which is one; how a refusal quotes; a line that two parsers share.
    within = {"affinity", "rocm", "refusal", "stuck"}
    left = {path.stem for path in ROOT.glob("facts/parse/*.py")} - {"__init__"} - within
    assert sorted(left - set(re.findall(r"from facts\.parse\.(\w+) import", text))) == []


def test_a_few_thousand_mutations_by_coverage_find_nothing(tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="no atheris for this Python and system")
    command = [sys.executable, "-m", "tests.fuzz.run", "--runs", "2000", "--corpus", str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
