"""What the other tools need: their virtual environment, their inventory and settings, and the script of a host."""

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from bench.site import MODEL, PROJECT, SERVICE, BenchSite, write_json
from facts.parse.gpus import FIELDS
from facts.script import probe_script
from fleet.nodes.request import ProbeRequest, ServiceRequest

HERE = Path(__file__).parent
VENV = HERE / ".venv"


def ensure_venv() -> Path:
    """The folder of the peers' programs, installed where it is missing or other versions are pinned now."""
    stamp, wanted = VENV / "installed.txt", (HERE / "requirements.txt").read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
        pip = [str(VENV / "bin/python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", str(HERE / "requirements.txt")], check=True)
        stamp.write_text(wanted)
    return VENV / "bin"


def script(unit: str, env: str, image: dict[str, str], dry: bool, same_facts: bool) -> str:
    """The whole job on one host, every value quoted once: our own facts, or only those that the playbook reads."""
    values = {
        "service": SERVICE,
        "unit_text": unit,
        "env_text": env,
        "image_digest": image["digest"],
        "model": MODEL,
        "gpu_fields": ",".join(FIELDS),
        "dry": str(int(dry)),
    }
    head = "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())
    facts = _our_facts(image) if same_facts else (HERE / "facts.sh").read_text()
    return head + (HERE / "ground.sh").read_text() + facts + (HERE / "change.sh").read_text()


def _our_facts(image: dict[str, str]) -> str:
    """The product's own probe, word for word; what it tells is printed, and asked for the unit's state."""
    asked = ServiceRequest(name=SERVICE, model=MODEL, image=f"{image['name']}@{image['digest']}", port=8000)
    text = probe_script(ProbeRequest(services=(asked,))).text
    body, call = text.rstrip("\n").rsplit("\n", 1)
    state = r"[[ $told == *ActiveState=active$'\n'* ]] && active=active"
    return f'{body}\ntold=$({call})\nprintf "%s\\n" "$told"\nactive=\n{state}\n'


def write(site: BenchSite, folder: Path) -> None:
    """Everything that the peers read: scripts of each host, the floor's hosts, Ansible's inventory and settings."""
    for which, dry in (("now", False), ("next", True)):
        (folder / which).mkdir(parents=True, exist_ok=True)
        for floor in ("floor", "lean"):
            hosts = {}
            for node in site.lab.nodes:
                texts = ((site.rendered(which) / node.name / name).read_text() for name in ("unit", "env"))
                text = script(*texts, site.image(), dry, same_facts=floor == "floor")
                hosts[node.name] = {"address": node.address, "script": text}
                if floor == "lean":
                    (folder / which / f"{node.name}.sh").write_text(text)
            write_json(folder / f"{floor}-{which}.json", {**site.access(), "hosts": hosts})
    write_inventory(site, folder)


def write_inventory(site: BenchSite, folder: Path) -> None:
    """What Ansible reads of the hosts, without any release."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hosts.yml").write_text(yaml.safe_dump(_inventory(site)))
    for mitogen in (False, True):
        name = "mitogen.cfg" if mitogen else "ansible.cfg"
        (folder / name).write_text(_settings(folder, len(site.lab.nodes), mitogen))


def _inventory(site: BenchSite) -> dict[str, Any]:
    access = site.access()
    options = {
        "UserKnownHostsFile": access["known_hosts"],
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "IdentitiesOnly": "yes",
    }
    image, counts = site.image(), site.gpu_counts()
    common = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": access["key"],
        "ansible_ssh_common_args": " ".join(f"-o {name}={value}" for name, value in options.items()),
        "ansible_python_interpreter": "/usr/bin/python3",
        "service": SERVICE,
        "model": MODEL,
        "image": f"{image['name']}@{image['digest']}",
        "gpu_fields": ",".join(FIELDS),
    }
    hosts = {node.name: {"ansible_host": node.address, "gpu_count": counts[node.name]} for node in site.lab.nodes}
    return {"all": {"hosts": hosts, "vars": common}}


def _settings(folder: Path, hosts: int, mitogen: bool) -> str:
    """ansible.cfg: all hosts at once, pipelining, ControlPersist. The path of a socket must be short."""
    lines = [
        "[defaults]",
        f"inventory = {folder / 'hosts.yml'}",
        f"forks = {hosts}",
        "gathering = explicit",
        f"home = {folder / 'home'}",
        "deprecation_warnings = False",
        "retry_files_enabled = False",
        "nocows = True",
    ]
    if mitogen:
        plugins = next(VENV.glob("lib/python3*/site-packages/ansible_mitogen/plugins/strategy"))
        lines += ["strategy = mitogen_linear", f"strategy_plugins = {plugins}"]
    lines += ["[connection]", "pipelining = True"]
    lines += ["[ssh_connection]", "ssh_args = -o ControlMaster=auto -o ControlPersist=60s"]
    return "\n".join([*lines, "control_path_dir = /run/vllm-fleet-bench", ""])


__all__ = ["PROJECT", "ensure_venv", "script", "write"]
