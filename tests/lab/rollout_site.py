"""A site of a test's own: nodes of the lab, group data, and pyinfra run on it as an operator would."""

import base64
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lab.lab import Lab

PROJECT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
FAULT_FILE = "/var/lib/standin/fault"
"""On a node: the stand-in's misbehaviour, read at its start and at each request."""


@dataclass(frozen=True)
class Ran:
    """What one command ended with. `out` is stdout and stderr together, as an operator reads them."""

    code: int
    out: str

    @property
    def plain(self) -> str:
        """Without colours, and with white space folded, so that line breaks do not matter."""
        return re.sub(r"\s+", " ", re.sub(r"\x1b\[[0-9;]*m", "", self.out))

    @property
    def machine(self) -> Any:
        """What `--json` prints: it is the only thing on stdout, so it can be read although stderr is there too."""
        start = min(place for place in (self.out.find("{"), self.out.find("[\n")) if place >= 0)
        return json.JSONDecoder().raw_decode(self.out[start:])[0]


@dataclass
class RolloutSite:
    """A fleet folder outside of the project, for some nodes of a lab."""

    lab: Lab
    root: Path
    nodes: tuple[str, ...] = ("a1", "h1", "l1")
    services: dict[str, Any] = field(default_factory=dict)
    """Placed on every node of the site unless `on` says otherwise."""
    rollout: dict[str, Any] = field(default_factory=dict)
    waivers: list[dict[str, str]] = field(default_factory=list)
    proof: tuple[str, ...] | None = None
    """What proves a release of `service`; None: what a service has that says nothing."""

    def __post_init__(self) -> None:
        written = self.lab.write_inventory(self.root / "all-nodes")
        self.fleet.mkdir(parents=True, exist_ok=True)
        for path in written:
            if path.stem in self.nodes:
                declared = yaml.safe_load(path.read_text())
                declared["ssh"] |= {name: str(self.lab.folder / file) for name, file in _ACCESS.items()}
                (self.fleet / path.name).write_text(yaml.safe_dump(declared | {"groups": ["lab"]}))

    @property
    def fleet(self) -> Path:
        """What FLEET names."""
        return self.root / "fleet"

    def service(self, version: str = "0.30.0", **settings: Any) -> dict[str, Any]:
        """A service of one GPU that every kind of node can run; its faults come from FAULT_FILE on the node."""
        digest = (self.lab.folder / f"image-{version}.digest").read_text().strip()
        policy = {"start_budget_s": 30, "proof_s": 10, "drain_s": 20, "stop_grace_s": 5, "last_replica": "take"}
        policy |= {"mixed": ["gpus"]}  # a lab has one node of each kind
        policy |= {} if self.proof is None else {"proof": list(self.proof)}
        own = {
            "model": "/srv/models/llama-70b",
            "image": {"name": "localhost/vllm-standin", "digest": digest, "engine": version},
            "layout": {"tp": 1},
            "max_model_len": 4096,
            "port": 8000,
            "env": {"VLLM_STANDIN_FAULT_FILE": FAULT_FILE},
            "mounts": [{"source": str(Path(FAULT_FILE).parent), "target": str(Path(FAULT_FILE).parent)}],
        }
        return {**own, **settings, "policy": {**policy, **settings.get("policy", {})}}

    def write(self, **services: dict[str, Any] | None) -> None:
        """Declare these services for all nodes of the site, with the site's rollout policy."""
        self.services = {name: service for name, service in services.items() if service is not None}
        data = self.fleet / "group_data"
        data.mkdir(exist_ok=True)
        rollout = {"batches": [1, "100%"], "min_free_gib": 0.1, **self.rollout}
        short = any(service["policy"]["start_budget_s"] < 20 for service in self.services.values())
        waiver = {"gate": "start-budget", "reason": "the stand-in reads nothing of its checkpoint"}
        waivers = [*self.waivers, *([waiver] if short else [])]
        (data / "all.yaml").write_text(yaml.safe_dump({"rollout": rollout, "waivers": waivers}))
        (data / "lab.yaml").write_text(yaml.safe_dump({"services": self.services}))

    def environment(self, **more: str) -> dict[str, str]:
        """The controller's environment."""
        return {**os.environ, "FLEET": str(self.fleet), "NO_COLOR": "1", **more}

    def pyinfra(self, *words: str, timeout: float = 120, **env: str) -> Ran:
        """`pyinfra inventory.py WORDS`, with stdin closed as in a pipeline."""
        return self._run([str(BIN / "pyinfra"), "inventory.py", *words], timeout, env)

    def deploy(self, *words: str, timeout: float = 120, **env: str) -> Ran:
        """A rollout, `-y`."""
        return self.pyinfra("deploy.py", "-y", *words, timeout=timeout, **env)

    def fleet_command(self, *words: str, timeout: float = 120, **env: str) -> Ran:
        """`fleet WORDS`."""
        return self._run([str(BIN / "fleet"), *words], timeout, env)

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        """pyinfra in the background, in a session of its own, to be killed by a test."""
        return subprocess.Popen(
            [str(BIN / "pyinfra"), "inventory.py", *words],
            cwd=PROJECT,
            env=self.environment(**env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def _run(self, command: list[str], timeout: float, env: dict[str, str]) -> Ran:
        done = subprocess.run(
            command,
            cwd=PROJECT,
            env=self.environment(**env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )
        return Ran(code=done.returncode, out=done.stdout)

    def on(self, node: str, command: str) -> str:
        """Run a shell command on a node that must succeed; its stdout."""
        done = self.lab.ssh(node, command)
        assert done.returncode == 0, f"{node}: {command}: {done.stderr}"
        return done.stdout.strip()

    def fault(self, node: str, text: str = "") -> None:
        """Let the stand-in on a node misbehave, from its next start or request on; empty: no more."""
        folder = str(Path(FAULT_FILE).parent)
        self.on(node, f"mkdir -p {folder} && printf %s '{text}' > {FAULT_FILE}.new && mv {FAULT_FILE}.new {FAULT_FILE}")

    def state(self, node: str, service: str) -> dict[str, str]:
        """What lies there: current, proven, previous, pending; empty text where there is none; and the unit's state."""
        folder = f"/var/lib/vllm-fleet/{service}"
        script = (
            f'cd {folder} 2>/dev/null || exit 0; printf \'current=%s\\n\' "$(basename "$(readlink current)")"; '
            "for f in proven previous pending; do printf '%s=%s\\n' $f \"$(cat $f 2>/dev/null)\"; done; "
            f"printf 'active=%s\\n' \"$(systemctl is-active vllm-{service})\"; "
            f"printf 'pid=%s\\n' \"$(systemctl show --value -p MainPID vllm-{service})\""
        )
        return dict(line.split("=", 1) for line in self.on(node, script).splitlines() if "=" in line)

    def plan(self, node: str, service: str) -> dict[str, Any]:
        """plan.json of the current release."""
        document: dict[str, Any] = json.loads(self.on(node, f"cat /var/lib/vllm-fleet/{service}/current/plan.json"))
        return document

    def engine(self, node: str, service: str) -> tuple[list[str], dict[str, str]]:
        """argv, from `vllm` on, and environment of the engine's own process, inside its container."""
        script = "podman inspect --format '{{.State.Pid}}' vllm-" + service
        told = self.on(node, f"p=$({script}) && for f in cmdline environ; do base64 -w0 /proc/$p/$f && echo; done")
        argv, environ = (base64.b64decode(line).decode().rstrip("\0").split("\0") for line in told.splitlines())
        start = next(place for place, word in enumerate(argv) if word.rpartition("/")[2] == "vllm")
        return ["vllm", *argv[start + 1 :]], dict(line.split("=", 1) for line in environ)

    def marks(self) -> dict[str, str]:
        """What a run that changes nothing leaves as it is: processes, containers, and our files with their times."""
        script = (
            "systemctl show --value -p MainPID 'vllm-*.service'; podman ps --all --quiet; "
            "find /var/lib/vllm-fleet /etc/systemd/system /usr/local/lib/vllm-fleet "
            "-printf '%p %m %u %s %T@ %C@\\n' | sort"
        )
        return {name: self.on(name, script) for name in self.nodes}

    def report(self, *words: str, timeout: float = 120, **env: str) -> tuple[int, dict[str, Any]]:
        """A rollout's exit code and its JSON report."""
        path = self.root / "report.json"
        path.unlink(missing_ok=True)
        ran = self.deploy("--data", f"report={path}", *words, timeout=timeout, **env)
        assert path.exists(), ran.out
        return ran.code, json.loads(path.read_text())


_ACCESS = {"key": "id_ed25519", "known_hosts": "known_hosts"}
