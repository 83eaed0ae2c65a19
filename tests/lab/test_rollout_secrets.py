"""A secret is in the engine's environment, in one file for root, and nowhere else that anybody could look."""

import shlex
from typing import Any

import pytest
from rollout_site import PROJECT, Ran, RolloutSite

from fleet.releases.command import STATE
from probes.asking.ask import ask
from probes.asking.exchange import ExchangeError
from probes.evidence import Endpoint, Limits

pytestmark = pytest.mark.lab
KEY, TOKEN = "k3y-zq4711 %h $HOME \"q\" 'a' \\n", "t0ken-zq4712-zwölf"
NEW_KEY = "n3w-zq4713-other"
TOLD = ("zq4711", "zq4712", "zq4713")
"""A part of each that survives any quoting, looked for everywhere."""


@pytest.fixture(scope="module")
def rolled(shared_site: RolloutSite) -> RolloutSite:
    """One node, one service, two secrets: one by variable, one by file."""
    for node in ("h1", "l1"):
        (shared_site.fleet / f"{node}.yaml").unlink()
    shared_site.nodes = ("a1",)
    token = shared_site.root / "token"
    token.write_text(f"{TOKEN}\n")
    secrets = {"VLLM_API_KEY": {"env": "LLM_KEY"}, "HF_TOKEN": {"file": str(token)}}
    shared_site.write(llm=shared_site.service(secrets=secrets))
    return shared_site


PODMAN_DATABASE = "/var/lib/containers/storage/db.sql"


def silent(*texts: str) -> None:
    """None of the secrets is in any of these."""
    for text in texts:
        found = [mark for mark in TOLD if mark in text]
        assert not found, f"{found} in {text[max(0, text.index(found[0]) - 200) :][:400]}"


def test_a_missing_secret_is_named_before_anything(rolled: RolloutSite) -> None:
    ran = rolled.deploy()
    assert ran.code == 1
    assert "secret VLLM_API_KEY of llm: want environment variable LLM_KEY, found none; set it" in ran.plain
    assert "Traceback" not in ran.out and "Gates" not in ran.out
    assert rolled.on("a1", f"ls {STATE} 2>/dev/null; true") == ""


def test_a_secret_that_systemd_would_drop_is_refused_before_anything(rolled: RolloutSite) -> None:
    for value, words in (
        (f"{KEY}\r", "want text without control characters"),
        ("", "want a value, found an empty text"),
    ):
        ran = rolled.deploy(LLM_KEY=value)
        assert ran.code == 1
        assert f"secret VLLM_API_KEY of llm: {words}" in ran.plain, ran.out
        assert "Traceback" not in ran.out and "Gates" not in ran.out
        silent(ran.out)
    assert rolled.on("a1", f"ls {STATE} 2>/dev/null; true") == ""


def test_a_roll_at_the_highest_verbosity_shows_no_secret(rolled: RolloutSite) -> None:
    # As where somebody has used podman before: its database, which notes each environment, is open to everybody.
    rolled.on("a1", f"podman ps && chmod 644 {PODMAN_DATABASE}")
    report = rolled.root / "report.json"
    debug = PROJECT / "pyinfra-debug.log"
    dry = rolled.deploy("--dry", "--diff", "-vvv", "--debug", LLM_KEY=KEY)
    assert dry.code == 0, dry.out
    assert "secret HF_TOKEN: added" in dry.plain and "secret VLLM_API_KEY: added" in dry.plain
    ran = rolled.deploy("--diff", "-vvv", "--debug-all", "--data", f"report={report}", LLM_KEY=KEY)
    assert ran.code == 0, ran.out
    silent(dry.out, ran.out, report.read_text())
    if debug.exists():
        silent(debug.read_text())
        debug.unlink()


def test_the_engine_has_its_secrets_and_the_proof_used_the_key(rolled: RolloutSite) -> None:
    _, environ = rolled.engine("a1", "llm")
    assert (environ["VLLM_API_KEY"], environ["HF_TOKEN"]) == (KEY, TOKEN)
    endpoint = Endpoint(url=f"http://{rolled.lab.node('a1').address}:8000", model="llm")
    with pytest.raises(ExchangeError, match="401"):
        ask(endpoint, "What is 2 + 2?", Limits(total_s=10))
    assert ask(endpoint.model_copy(update={"api_key": _key(KEY)}), "What is 2 + 2?", Limits(total_s=10)).said


def _key(text: str) -> Any:
    return Endpoint(url="http://x:1", model="x", api_key=text).api_key


def test_nothing_on_the_node_but_one_file_for_root_holds_a_secret(rolled: RolloutSite) -> None:
    marks = "|".join(TOLD)
    files = rolled.on(
        "a1",
        f"grep -rlE '{marks}' / --exclude-dir=proc --exclude-dir=sys --exclude-dir=dev 2>/dev/null; true",
    ).splitlines()
    folder = f"{STATE}/llm/releases/{rolled.state('a1', 'llm')['current']}"
    # podman keeps a container's environment in its own folders, for root only; it must, to start the container.
    ours = [path for path in files if not path.startswith(("/run/containers/", "/run/crun/", "/var/lib/containers/"))]
    assert ours == [f"{folder}/secrets.env"]
    others = [path for path in files if path not in ours]
    assert rolled.on("a1", f"stat -c '%a %U' {folder}/secrets.env") == "600 root"
    readable = "for f; do runuser -u nobody -- test -r $f && echo $f; done; true"
    assert rolled.on("a1", f"bash -c {shlex.quote(readable)} x {shlex.join(files)}") == ""
    assert others, "the search finds what is there"
    everybody = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; ps -efww; systemctl show vllm-llm; systemctl cat vllm-llm"
    told = rolled.on("a1", f"{everybody}; journalctl --no-pager --output=verbose")
    assert "vllm-llm" in told and "serve" in told
    silent(told)


def test_no_command_of_the_controller_shows_a_secret(rolled: RolloutSite) -> None:
    said: list[Ran] = [
        rolled.fleet_command("cmd", "llm", "a1", LLM_KEY=KEY),
        rolled.fleet_command("cmd", "llm", "a1", "--json", LLM_KEY=KEY),
        rolled.fleet_command("status", LLM_KEY=KEY),
        rolled.fleet_command("status", "--json", LLM_KEY=KEY),
        rolled.fleet_command("wait", "llm", "--json", LLM_KEY=KEY),
    ]
    assert [ran.code for ran in said] == [0] * len(said), [ran.out for ran in said]
    silent(*(ran.out for ran in said))
    assert "export VLLM_API_KEY=***" in said[0].out


def test_a_changed_secret_is_named_restarts_and_is_the_only_change(rolled: RolloutSite) -> None:
    before = rolled.state("a1", "llm")
    same = rolled.deploy(LLM_KEY=KEY)
    assert (same.code, rolled.state("a1", "llm")) == (0, before)
    ran = rolled.deploy("--diff", LLM_KEY=NEW_KEY)
    assert ran.code == 0, ran.out
    plan = ran.plain.partition("Plan:")[2].partition("Ready: deploy.py")[0]
    assert "a1/llm: update (new release) secret VLLM_API_KEY: changed" in plan
    assert "HF_TOKEN" not in plan and "flag" not in plan
    assert rolled.engine("a1", "llm")[1]["VLLM_API_KEY"] == NEW_KEY
    assert rolled.state("a1", "llm")["previous"] == before["current"]
    silent(ran.out)
