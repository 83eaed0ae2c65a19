"""`make fuzz`: atheris (libFuzzer) over the parsers, one target after the other or all in one process.

What it finds lies in the corpus folder as a file; `python -m tests.fuzz.run TARGET FILE` shows it again.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["facts.parse", "fleet.model", "fleet.delivery.manifest", "fleet.checks"]):
    from tests.fuzz.targets import ROOT, TARGETS, seeds

SLOWEST_S = 10
"""A text that takes longer is a hang."""


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", nargs="?", choices=TARGETS, help="One target; none: all.")
    parser.add_argument("file", nargs="?", type=Path, help="Run this text alone.")
    parser.add_argument("--seconds", type=int, default=0, help="For each target, in a process of its own.")
    parser.add_argument("--runs", type=int, default=-1, help="So many texts, all targets in one process.")
    parser.add_argument("--corpus", type=Path, default=ROOT / ".fuzz")
    return parser.parse_args()


def _corpus(folder: Path, names: list[str]) -> Path:
    """Seeds as files; the first byte says whose they are."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        for number, text in enumerate(seeds(name)):
            data = bytes([list(TARGETS).index(name)]) + text.encode()[:20000]
            (folder / f"{name}-{number}").write_bytes(data)
    return folder


def one(data: bytes, only: str | None = None) -> None:
    """Run one text through the target that its first byte names, or through the given one."""
    names = list(TARGETS)
    name = only or names[(data[0] if data else 0) % len(names)]
    TARGETS[name][0](data[1:].decode("utf-8", "replace"))


def main() -> int:
    """0: nothing was found."""
    given = _options()
    if given.file is not None:
        one(given.file.read_bytes(), given.target)
        return 0
    names = [given.target] if given.target else list(TARGETS)
    if given.seconds and given.target is None:
        found = [name for name in names if _alone(name, given.seconds)]
        print(f"{len(names)} parsers, {given.seconds} s each: {', '.join(found) or 'nothing found'}")
        return 1 if found else 0
    folder = _corpus(given.corpus / (given.target or "all"), names)
    limit = [f"-max_total_time={given.seconds}"] if given.seconds else [f"-runs={given.runs}"]
    artifacts = f"-artifact_prefix={folder.parent}/found-{given.target or 'all'}-"
    flags = [*limit, artifacts, f"-timeout={SLOWEST_S}", "-rss_limit_mb=2048", "-verbosity=0", "-max_len=20000"]
    atheris.Setup([sys.argv[0], *flags, str(folder)], lambda data: one(data, given.target))
    atheris.Fuzz()
    return 0


def _alone(name: str, seconds: int) -> bool:
    """Fuzz one target in a process of its own; was anything found?"""
    command = [sys.executable, "-m", "tests.fuzz.run", name, "--seconds", str(seconds)]
    print(f"{name}: {seconds} s", flush=True)
    return subprocess.run(command, cwd=ROOT).returncode != 0


if __name__ == "__main__":
    sys.exit(main())
