"""`pyinfra inventory.py`: hosts and groups of the fleet, and a clear refusal with exit 1 where pyinfra would go on."""

import hashlib
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from declared_sites import GLM, PROJECT, node

from declare.load import load_fleet
from declare.site import find_site
from fleet.plan import decide

WriteSite = Callable[..., Path]
Pyinfra = Callable[..., "subprocess.CompletedProcess[str]"]
ROOMS = ("declare", "facts", "fleet", "operations", "probes", "templates", "inventory", "group_data")


def test_hosts_carry_what_their_owner_declared(write_site: WriteSite, pyinfra: Pyinfra) -> None:
    fleet = write_site(
        {
            "inventory/prod/n1.yaml": node() + "ssh: {user: admin, port: 2222, key: ../k, known_hosts: ../h}\n",
            "inventory/prod/n2.yaml": node(2, "spare, glm"),
        }
    )
    done = pyinfra(fleet, "debug-inventory", "--json")
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    assert first["data"] == {
        "node": "n1",
        "ssh_hostname": "192.0.2.1",
        "ssh_port": 2222,
        "ssh_user": "admin",
        "ssh_strict_host_key_checking": "yes",
        "ssh_known_hosts_file": str(fleet.parent / "h"),
        "ssh_key": str(fleet.parent / "k"),
        "ssh_allow_agent": False,
        "ssh_look_for_keys": False,
    }
    assert set(first["groups"]) == {"glm", "inventory"}
    assert set(second["groups"]) == {"glm", "spare", "inventory"}
    assert "ssh_allow_agent" not in second["data"]


@pytest.mark.parametrize("verb", ["gates.py", "fact"])
def test_a_key_that_is_not_there_is_told_before_anybody_is_contacted(
    write_site: WriteSite, pyinfra: Pyinfra, verb: str, tmp_path: Path
) -> None:
    here = node().replace("192.0.2.1", "127.0.0.1") + "ssh: {port: 9, key: k}\n"
    fleet, key = write_site({"inventory/prod/n1.yaml": here}), tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    words = (verb,) if verb.endswith(".py") else (verb, "facts.topology.Topology")
    refused(pyinfra(fleet, *words), f"n1: ssh.key: want a file that is there, found {fleet}/k")
    assert "Could not connect" in pyinfra(fleet, *words, "--data", f"ssh_key={key}").stderr


@pytest.mark.parametrize(
    ("content", "password", "told"),
    [
        (b"ssh-ed25519 AAAA me@here\n", None, "want a private key, found none in"),
        (b"\0\xff", None, "want a private key, found none in"),
        (None, "sesame", r"want a private key without a password \(or ssh-agent\), found .*/k encrypted"),
    ],
    ids=["public", "bytes", "encrypted"],
)
def test_a_file_that_is_no_key_to_use_is_told_before_anybody_is_contacted(
    write_site: WriteSite, pyinfra: Pyinfra, content: bytes | None, password: str | None, told: str
) -> None:
    here = node().replace("192.0.2.1", "127.0.0.1")
    fleet = write_site({"inventory/prod/n1.yaml": here + "ssh: {port: 9, key: k}\n"})
    if content is None:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", str(password), "-f", fleet / "k"], check=True)
    else:
        (fleet / "k").write_bytes(content)
    refused(pyinfra(fleet, "gates.py"), f"n1: ssh.key: {told}")
    (fleet / "n1.yaml").write_text(here)
    refused(pyinfra(fleet, "gates.py", "--data", f"ssh_key={fleet / 'k'}"), f"--data ssh_key: {told}")


def test_a_node_that_does_not_speak_ssh_is_told_in_one_line(write_site: WriteSite, pyinfra: Pyinfra) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        here = node().replace("192.0.2.1", "127.0.0.1") + f"ssh: {{port: {listener.getsockname()[1]}}}\n"

        def refuse() -> None:
            with listener.accept()[0] as caller:
                caller.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 3)

        thread = threading.Thread(target=refuse, daemon=True)
        thread.start()
        done = pyinfra(write_site({"inventory/prod/n1.yaml": here}), "gates.py")
        thread.join(timeout=10)
    assert done.returncode == 1 and "Error reading SSH protocol banner" in done.stderr, done
    assert "Traceback" not in done.stderr and "paramiko" not in done.stderr


def test_a_recorded_node_is_a_host_under_its_own_name(write_site: WriteSite, pyinfra: Pyinfra) -> None:
    fleet = write_site({"inventory/prod/n1.yaml": node() + "recording: n1.json\n", "inventory/prod/n1.json": "{}"})
    done = pyinfra(fleet, "debug-inventory", "--json", "--limit", "@recorded", "--limit", "n1")
    assert done.returncode == 0, done.stderr
    (host,) = json.loads(done.stdout)
    assert host["name"] == "n1" and "glm" in host["groups"]
    assert host["data"]["recording"] == str(fleet / "n1.json")


REFUSED = {
    "a_limit_that_matches_nobody": (["--limit", "n11"], '--limit: matches nobody: .* found "n11"; did you mean "n1"'),
    "an_exclude_that_matches_everybody": (["--exclude", "n*"], "--exclude: want at least one host left"),
    "an_order_of_its_own": (
        ["--serial", "--no-wait", "--fail-percent", "0"],
        "(?s)--serial: .*--no-wait: .*--fail-perc",
    ),
    "data_without_a_value": (["--data", "tp"], "--data tp: want NAME=VALUE, found no ="),
    "data_nobody_knows": (["--data", "tpp=4"], '--data tpp: want a known name, found "tpp"; did you mean "tp"'),
}


@pytest.mark.parametrize(("words", "said"), REFUSED.values(), ids=REFUSED)
def test_an_option_is_refused(write_site: WriteSite, pyinfra: Pyinfra, words: list[str], said: str) -> None:
    refused(pyinfra(write_site(), "debug-inventory", *words), said)


@pytest.mark.parametrize("inventory", ["n1", "@local", "inventry.py"])
def test_a_verb_on_another_inventory_is_refused_and_does_not_run_on_nobody(inventory: str) -> None:
    words = [Path(sys.executable).with_name("pyinfra"), inventory, "deploy.py", "--dry"]
    done = subprocess.run(words, cwd=PROJECT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    refused(
        done, rf"want `pyinfra inventory\.py deploy\.py`, whose fleet FLEET names, found the inventory '{inventory}'"
    )


BAD_SITES: dict[str, tuple[dict[str, str | bytes], str]] = {
    "malformed_yaml": ({"inventory/prod/n1.yaml": "address: ["}, r"n1\.yaml:[12]: want well-formed YAML"),
    "an_unknown_field": (
        {"group_data/glm.yaml": GLM + "    prot: 1\n"},
        r"glm\.yaml:5: services\.glm\.prot: want a known",
    ),
    "names_of_services": (
        {"group_data/glm.yaml": "services: {my glm: {}, ../glm: {}}"},
        r"(?s)my glm: want a service name.*\.\./glm: want a service name",
    ),
}


@pytest.mark.parametrize(("files", "said"), BAD_SITES.values(), ids=BAD_SITES)
def test_a_bad_site_is_refused(
    write_site: WriteSite, pyinfra: Pyinfra, files: dict[str, str | bytes], said: str
) -> None:
    refused(pyinfra(write_site(files), "deploy.py", "-y"), said)


def test_an_empty_fleet_is_refused(write_site: WriteSite, pyinfra: Pyinfra) -> None:
    fleet = write_site()
    (fleet / "n1.yaml").unlink()
    refused(pyinfra(fleet, "deploy.py", "-y"), "found an empty fleet")


def test_a_fleet_that_is_not_there_is_refused(pyinfra: Pyinfra) -> None:
    refused(pyinfra("labb", "deploy.py", "-y"), 'did you mean "lab"')


def test_a_change_without_a_confirmation_is_refused(write_site: WriteSite, pyinfra: Pyinfra) -> None:
    refused(pyinfra(write_site(), "deploy.py"), "-y: want -y .*no terminal to ask")


def test_a_warning_of_the_declaration_is_shown(write_site: WriteSite, pyinfra: Pyinfra) -> None:
    done = pyinfra(write_site({"group_data/gml.yaml": GLM}), "debug-inventory")
    assert done.returncode == 0
    assert "no node is in the group gml" in done.stderr


def test_a_site_is_planned_and_this_repository_stays_untouched(
    write_site: WriteSite, pyinfra: Pyinfra, tmp_path: Path
) -> None:
    checkout = tmp_path / "vllm-fleet"
    for room in ROOMS:
        shutil.copytree(PROJECT / room, checkout / room, ignore=shutil.ignore_patterns("__pycache__"))
    for file in PROJECT.glob("*.py"):
        shutil.copy(file, checkout)
    fleet = write_site()
    before = {root: checksums(root) for root in (checkout, fleet.parent.parent)}
    loaded = load_fleet(find_site(str(fleet), checkout))
    plans = [decide(placement, service, None) for placement in loaded.placements for service in placement.services]
    assert [(plan.node.name, str(plan.layout), plan.layout.partition_text) for plan in plans] == [
        ("n1", "TP4/PP2", "42,36")
    ]
    done = pyinfra(fleet, "debug-inventory", project=checkout)
    assert done.returncode == 0, done.stderr
    assert {root: checksums(root) for root in before} == before


def checksums(root: Path) -> dict[str, str]:
    """Every file below a folder with its digest."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def refused(done: "subprocess.CompletedProcess[str]", said: str) -> None:
    """Exit 1 with that text, no traceback, and no host was contacted."""
    told = done.stdout + done.stderr
    assert done.returncode == 1, told
    assert re.search(said, told), told
    assert "Traceback" not in told and "internal exception" not in told
    assert "Connecting" not in told
