"""The boundary repair on the engine's real attention classes: which layers compute, before, by pattern and by patch."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from declare.patches import read_patches
from fleet.engines.patch import Patch, apply, find_patch
from fleet.layouts.boundary import Partition, orphans
from fleet.layouts.repair import PATCH, first_layers, pattern_for
from fleet.model.architecture import read_architecture
from lab.engine.interpreter import Interpreter

pytestmark = pytest.mark.engine

PROJECT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("computing_layers.py")
GLM = {"num_hidden_layers": 78, "index_topk": 2048, "index_topk_freq": 4, "index_skip_topk_offset": 3}
MODEL = read_architecture({**GLM, "num_attention_heads": 64, "model_type": "glm_moe_dsa"})
OWN = [0, 1, 2, *range(6, 78, 4)]
ORPHANS = {
    (78,): [],
    (39, 39): [39, 40, 41],
    (40, 38): [40, 41],
    (41, 37): [41],
    (42, 36): [],
    (45, 33): [45],
    (20, 20, 20, 18): [20, 21, 40, 41, 60, 61],
    (19, 20, 20, 19): [19, 20, 21, 39, 40, 41, 59, 60, 61],
    (22, 20, 20, 16): [],
}
CLASSES = ("generic", "cuda")


def taken_back(cut: Partition) -> str:
    """The pattern that repairs a cut, without the repair of its last misaligned stage."""
    pattern = pattern_for(cut, MODEL)
    last = max(first_layers(cut, MODEL), default=None)
    return pattern if last is None else f"{pattern[:last]}S{pattern[last + 1 :]}"


class Classes:
    """Answers of the classes of one version, all from one process of its interpreter: kind -> way -> cut -> answer."""

    def __init__(self, engine: Interpreter, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        ways: dict[str, Callable[[Partition], dict[str, Any]]] = {
            "plain": lambda cut: {},
            "by pattern": lambda cut: {"overrides": {"index_topk_pattern": pattern_for(cut, MODEL)}},
            "by patch": lambda cut: {"patched": True},
            "with a letter of the pattern taken back": lambda cut: {
                "overrides": {"index_topk_pattern": taken_back(cut)}
            },
        }
        runs = [(way, cut, {"cut": cut, "overrides": {}, **of(cut)}) for way, of in ways.items() for cut in ORPHANS]
        question = json.dumps({"config": GLM, "sources": self.patched(), "runs": [run for _, _, run in runs]})
        words = [engine.python, SCRIPT, question]
        done = subprocess.run(words, env=engine.environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        self.told: dict[str, dict[str, dict[Partition, dict[str, Any]]]] = {}
        for kind, rows in json.loads(done.stdout.splitlines()[-1]).items():
            for (way, cut, _), row in zip(runs, rows, strict=True):
                self.told.setdefault(kind, {}).setdefault(way, {})[cut] = row

    def patched(self) -> dict[str, str]:
        """Module -> the file that the shipped patch makes of this version's."""
        sources = {}
        for file in shipped(self.engine.version).files:
            done = apply(file.path, self.file(file.path), self.engine.version, [shipped(self.engine.version)])
            path = self.folder / file.path.replace("/", "_")
            path.write_text(done.text)
            sources[file.path.removesuffix(".py").replace("/", ".")] = str(path)
        return sources

    def file(self, path: str) -> bytes:
        root = self.engine.environment.get("PYTHONPATH")
        found = Path(root) if root else next(self.engine.python.parents[1].glob("lib/python3*/site-packages"))
        return (found / path).read_bytes()


def shipped(version: str) -> Patch:
    problems: list[str] = []
    patches = read_patches([PROJECT / "patches"], problems)
    assert not problems
    return find_patch(PATCH, version, patches)


@pytest.fixture(scope="module", params=["0.30.0", "0.31.0", "0.32.0", "0.33.0"])
def classes(
    engine_of: Callable[[str], Interpreter], tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Classes:
    """The classes of each version that the patch is for."""
    return Classes(engine_of(request.param), tmp_path_factory.mktemp("patched"))


def flat(row: dict[str, Any]) -> list[int]:
    return [layer for stage in row["computing"] for layer in stage]


def test_without_a_repair_a_misaligned_stage_starts_without_indices(classes: Classes) -> None:
    for kind in CLASSES:
        for cut, row in classes.told[kind]["plain"].items():
            assert (flat(row), row["orphans"], row["mtp"]) == (OWN, ORPHANS[cut], True), (kind, cut)
            told = [layer for found in orphans(cut, MODEL) for layer in found.layers]
            assert told == row["orphans"], (kind, cut)


@pytest.mark.parametrize("way", ["by pattern", "by patch"])
def test_repaired_the_first_layer_of_each_misaligned_stage_computes_and_no_other_changes(
    classes: Classes, way: str
) -> None:
    for kind in CLASSES:
        for cut, row in classes.told[kind][way].items():
            assert (row["orphans"], row["mtp"]) == ([], True), (kind, cut)
            assert flat(row) == sorted({*OWN, *first_layers(cut, MODEL)}), (kind, cut)


def test_one_stage_and_aligned_cuts_are_left_as_they_are(classes: Classes) -> None:
    for kind in CLASSES:
        for cut in ((78,), (42, 36), (22, 20, 20, 16)):
            assert classes.told[kind]["by patch"][cut] == classes.told[kind]["plain"][cut]
            assert pattern_for(cut, MODEL) == pattern_for((78,), MODEL)


def test_taking_the_repair_away_brings_the_orphans_back(classes: Classes) -> None:
    """So the check above can fail: `plain` is the same question with neither pattern nor patch."""
    for kind in CLASSES:
        for cut, row in classes.told[kind]["with a letter of the pattern taken back"].items():
            last = max(first_layers(cut, MODEL), default=78)
            assert row["orphans"] == [layer for layer in ORPHANS[cut] if layer >= last], (kind, cut)
            assert bool(row["orphans"]) == bool(ORPHANS[cut])
