from pathlib import Path

import pytest

from probes import completion
from probes.asking.load import ProbeNotLoaded, load
from probes.evidence import Endpoint, Limits

ENDPOINT = Endpoint(url="http://127.0.0.1:1", model="glm")
GOOD = """
from pydantic import BaseModel
from probes.evidence import Evidence

class Mine(BaseModel):
    text: "str"

def probe(endpoint, limits):
    return Evidence(probe="{name}", passed=True, wanted="", found=Mine(text=endpoint.model).text, seconds=0)
"""


def _write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(text)
    return folder


def test_the_projects_probes_are_found_without_a_folder() -> None:
    assert load("completion")(ENDPOINT, Limits(total_s=1)).probe == "completion"
    ours = Path(completion.__file__).parent
    assert load("health", [ours])(ENDPOINT, Limits(total_s=1)).probe == "health"


def test_every_file_beside_what_a_probe_is_given_is_a_probe() -> None:
    names = {path.stem for path in Path(completion.__file__).parent.glob("*.py")} - {"__init__", "evidence"}
    assert len(names) >= 9
    assert all(callable(load(name)) for name in names)


def test_a_sites_probe_comes_first(tmp_path: Path) -> None:
    site = _write(tmp_path / "site", "completion", GOOD.format(name="of the site"))
    evidence = load("completion", [tmp_path / "absent", site])(ENDPOINT, Limits())
    assert (evidence.probe, evidence.found) == ("of the site", "glm")
    other = _write(tmp_path / "other", "completion", GOOD.format(name="of the other"))
    assert load("completion", [other, site])(ENDPOINT, Limits()).probe == "of the other"
    assert load("completion", [site])(ENDPOINT, Limits()).probe == "of the site"


@pytest.mark.parametrize("name", ["../completion", "a b", "", "Completion", "/etc/passwd", "completion.py"])
def test_a_name_is_a_name(name: str) -> None:
    with pytest.raises(ProbeNotLoaded, match="wanted a file name"):
        load(name)


def test_what_is_not_there_names_the_folders(tmp_path: Path) -> None:
    with pytest.raises(ProbeNotLoaded) as error:
        load("absent", [tmp_path])
    assert str(tmp_path) in str(error.value)
    assert str(Path(completion.__file__).parent) in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def prob(endpoint, limits): ...", "wanted a function probe"),
        ("probe = 4", "wanted a function probe"),
        ("def probe(endpoint): ...", r"found probe\(endpoint\)"),
        ("def probe(endpoint, limits", "SyntaxError"),
        ("import nothing_of_that_name", "ModuleNotFoundError"),
        ("1/0", "ZeroDivisionError"),
    ],
)
def test_a_file_that_is_no_probe_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ProbeNotLoaded, match=says) as error:
        load("mine", [_write(tmp_path, "mine", text)])
    assert str(tmp_path / "mine.py") in str(error.value)


def test_our_own_modules_are_no_probes() -> None:
    with pytest.raises(ProbeNotLoaded, match="wanted a function probe"):
        load("evidence")


@pytest.mark.parametrize(
    ("body", "found"),
    [("raise RuntimeError('oh')", "RuntimeError: oh"), ("return True", "bool True"), ("pass", "NoneType None")],
)
def test_a_sites_broken_probe_is_a_failed_evidence(tmp_path: Path, body: str, found: str) -> None:
    site = _write(tmp_path, "mine", f"def probe(endpoint, limits):\n    {body}\n")
    evidence = load("mine", [site])(ENDPOINT, Limits())
    assert not evidence.passed
    assert (evidence.probe, evidence.found) == ("mine", found)
