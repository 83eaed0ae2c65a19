"""Bad input, whole: each mistake is a clear error with exit code 1, and nothing is changed or even contacted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from rollout_site import RolloutSite

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def rolled(shared_site: RolloutSite) -> RolloutSite:
    """One node that serves a proven release."""
    for node in ("h1", "l1"):
        (shared_site.fleet / f"{node}.yaml").unlink()
    shared_site.nodes = ("a1",)
    shared_site.write(llm=shared_site.service())
    ran = shared_site.deploy()
    assert ran.code == 0, ran.out
    return shared_site


@pytest.fixture
def untouched(rolled: RolloutSite) -> Any:
    """The node is afterwards as it was before, whatever the test did to the declaration."""
    before = rolled.marks()
    rolled.write(llm=rolled.service())
    yield rolled
    rolled.write(llm=rolled.service())
    assert rolled.marks() == before


def edit(site: RolloutSite, change: Callable[[dict[str, Any]], None]) -> None:
    path = site.fleet / "group_data" / "lab.yaml"
    content = yaml.safe_load(path.read_text())
    change(content["services"])
    path.write_text(yaml.safe_dump(content))


def malformed(site: RolloutSite) -> None:
    (site.fleet / "group_data" / "lab.yaml").write_text("services:\n  llm: {model: [\n")


def unknown_field(site: RolloutSite) -> None:
    edit(site, lambda services: services["llm"].update(prot=8001))


def name(text: str) -> Callable[[RolloutSite], None]:
    return lambda site: edit(site, lambda services: services.update({text: services.pop("llm")}))


def unknown_probe(site: RolloutSite) -> None:
    edit(site, lambda services: services["llm"]["policy"].update(proof=["completoin"]))


def control_character(site: RolloutSite) -> None:
    edit(site, lambda services: services["llm"]["env"].update(BELL="a\x07b"))


def nul(site: RolloutSite) -> None:
    edit(site, lambda services: services["llm"].update(flags={"--chat-template": "a\0b"}))


@pytest.mark.parametrize(
    "spoil, words",
    [
        (malformed, "lab.yaml:"),
        (unknown_field, 'services.llm.prot: want a known field, found "prot"; did you mean "port"?'),
        (name("my llm"), 'found "my llm"'),
        (name("../llm"), 'found "../llm"'),
        (unknown_probe, 'found "completoin"; did you mean "completion"?'),
        (control_character, "BELL: want text without control characters"),
        (nul, "want text without NUL"),
    ],
    ids=["malformed", "unknown-field", "space", "dots", "unknown-probe", "control-character", "nul"],
)
def test_a_mistake_in_the_declaration_is_told_before_any_contact(
    untouched: RolloutSite, spoil: Callable[[RolloutSite], None], words: str
) -> None:
    spoil(untouched)
    for ran in (untouched.deploy(), untouched.fleet_command("cmd", "llm", "a1")):
        assert ran.code == 1
        assert words in ran.plain, ran.out
        assert "Traceback" not in ran.out and "Connected" not in ran.out


@pytest.mark.parametrize(
    "words, said",
    [
        (("deploy.py", "-y", "--limit", "nobody"), "--limit: matches nobody: want"),
        (("deploy.py", "-y", "--exclude", "a1"), "--exclude: want at least one host left, found none of a1"),
        (("deploy.py",), "-y: want -y (or --dry to only look), found neither, and no terminal"),
        (("rollback.py",), "-y: want -y (or --dry to only look), found neither, and no terminal"),
        (("deploy.py", "-y", "--serial"), "--serial: want rollout.batches to decide the order"),
        (("deploy.py", "-y", "--no-wait"), "--no-wait: want every batch to wait for its proof"),
        (
            ("deploy.py", "-y", "--data", "max_model_len=many"),
            '--data max_model_len: want an integer >= 1, found "many"',
        ),
        (("deploy.py", "-y", "--data", "tp"), "--data tp: want NAME=VALUE, found no ="),
        (("deploy.py", "-y", "--data", "wings=2"), 'found the unknown name "wings"'),
        (("deploy.py", "-y", "--data", "service=lmm"), 'found "lmm"; did you mean "llm"?'),
    ],
)
def test_a_command_that_cannot_be_obeyed_is_refused(untouched: RolloutSite, words: tuple[str, ...], said: str) -> None:
    ran = untouched.pyinfra(*words)
    assert (ran.code, said in ran.plain) == (1, True), ran.out
    assert "Traceback" not in ran.out and "Connected" not in ran.out


def test_an_empty_fleet_is_refused(untouched: RolloutSite, tmp_path: Path) -> None:
    (tmp_path / "inventory" / "none").mkdir(parents=True)
    for place, words in ((tmp_path / "inventory" / "none", "want"), (tmp_path / "nowhere", "FLEET: want a folder")):
        ran = untouched.deploy(FLEET=str(place))
        assert (ran.code, words in ran.plain, "Traceback" in ran.out) == (1, True, False), ran.out


def test_a_capture_that_was_cut_off_is_refused(untouched: RolloutSite, tmp_path: Path) -> None:
    whole = untouched.on("a1", "nvidia-smi topo -m")
    capture = tmp_path / "topo.txt"
    capture.write_text(whole)
    assert untouched.fleet_command("topology", str(capture), "--json").code == 0
    capture.write_text(whole[: len(whole) // 3])
    ran = untouched.fleet_command("topology", str(capture), "--json")
    assert ran.code == 1 and "topo.txt: " in ran.plain and "Traceback" not in ran.out


PROBE = '''
from probes.evidence import Endpoint, Evidence, Limits
from probes.asking.exchange import Deadline, get

def probe(endpoint: Endpoint, limits: Limits) -> Evidence:
    """Passes where the engine says a version that the owner wants."""
    found = get(f"{endpoint.url}/version", Deadline(limits.total_s))
    return Evidence(probe="version", passed="WANTED" in found, wanted="WANTED", found=found, seconds=0.1)
'''


def test_a_probe_of_the_sites_own_proves_or_refuses_a_release(rolled: RolloutSite) -> None:
    folder = rolled.fleet / "probes"
    folder.mkdir()
    own = {"proof": ["completion", "version"]}
    (folder / "version.py").write_text(PROBE.replace("WANTED", "0.33.0"))
    rolled.write(llm=rolled.service(max_model_len=2048, policy=own))
    before = rolled.state("a1", "llm")
    code, told = rolled.report()
    assert code == 1
    assert told["results"][0]["status"] == "restored" or "does NOT prove itself: version" in told["stopped"]
    assert 'version: want 0.33.0, found {"version": "0.30.0+standin"}' in told["results"][0]["proof"]
    assert rolled.state("a1", "llm") | {"pid": ""} == before | {"pid": ""}
    (folder / "version.py").write_text(PROBE.replace("WANTED", "0.30.0"))
    code, told = rolled.report()
    assert code == 0
    assert "version: " in told["results"][0]["proof"] and "completion: 2 answers" in told["results"][0]["proof"]
    (folder / "version.py").write_text("def probe(endpoint, limits):\n    raise RuntimeError('no such thing')\n")
    rolled.write(llm=rolled.service(max_model_len=1024, policy=own))
    code, told = rolled.report()
    assert code == 1 and "RuntimeError: no such thing" in told["results"][0]["proof"]
    assert rolled.on("a1", "ls /var/lib/vllm-fleet/llm/pending 2>/dev/null; systemctl is-active vllm-llm") == "active"
