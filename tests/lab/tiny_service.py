"""A service small enough to try every verb of the node script on: one process that answers /health, no container."""

import hashlib
import json
import subprocess
import time
from dataclasses import dataclass, field
from typing import Any

from fleet.releases.command import NODE_SCRIPT, STATE
from operations.node_script import Call, Reply, apply_command, read_replies, read_reply, stage_call, support_files

PROGRAM = """
import http.server, os, sys, time
time.sleep(float(os.environ.get("LOAD_S", "0")))
if os.environ.get("CRASH"):
    print("CUDA error: out of memory")
    sys.exit(3)
unwell_until = time.monotonic() + float(os.environ.get("UNWELL_S", "0"))
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if time.monotonic() >= unwell_until else 503)
        self.end_headers()
        self.wfile.write(os.environ["RELEASE"].encode())
http.server.HTTPServer(("0.0.0.0", int(os.environ["PORT"])), Answer).serve_forever()
"""

UNIT = """[Unit]
Description=tiny service {name}
After=vllm-fleet-boot.service
StartLimitIntervalSec=7200
StartLimitBurst=6

[Service]
Type=exec
EnvironmentFile={state}/{name}/current/env
ExecStart=/usr/bin/python3 -I -S /srv/tiny.py
ExecStartPost={node} wait-health {port}
TimeoutStartSec={budget}
Restart=always
RestartSec=10
{extra}
[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True)
class TinyRelease:
    """One release of a tiny service: what its environment says, and the unit around it."""

    name: str
    port: int
    env: dict[str, str] = field(default_factory=dict)
    budget: int = 20
    extra: str = ""
    secret: str | None = None

    @property
    def unit(self) -> str:
        """The text of the unit."""
        return UNIT.format(
            name=self.name, state=STATE, node=NODE_SCRIPT, port=self.port, budget=self.budget, extra=self.extra
        )

    @property
    def id(self) -> str:
        """Digest of everything that makes it up."""
        content = json.dumps([self.name, self.env, self.unit, self.secret], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    @property
    def files(self) -> dict[str, tuple[str, str]]:
        """As the staging call takes them."""
        env = {"PORT": str(self.port), "RELEASE": self.id, **self.env}
        files = {
            "unit": ("644", self.unit),
            "env": ("600", "".join(f'{name}="{value}"\n' for name, value in env.items())),
            "plan.json": ("600", json.dumps({"env": env}) + "\n"),
        }
        return files if self.secret is None else {**files, "secrets.env": ("600", f'TOKEN="{self.secret}"\n')}


class TinyHost:
    """One lab host with the node script in place."""

    def __init__(self, lab: Any, name: str) -> None:
        self.lab, self.name = lab, name

    def run(self, command: str, input: str | None = None) -> subprocess.CompletedProcess[str]:
        """Any shell command."""
        return self.lab.ssh(self.name, command, input=input)

    def out(self, command: str) -> str:
        """What a shell command prints, whatever its exit code."""
        return self.run(command).stdout.strip()

    def install(self) -> None:
        """The support files and the tiny program."""
        sent = apply_command(support_files(), [])
        assert self.run(sent.command, sent.stdin).returncode == 0
        self.run("mkdir -p /srv; cat >/srv/tiny.py", PROGRAM)

    def call(self, *words: str, stdin: str = "") -> Reply:
        """One verb."""
        done = self.run(f"{NODE_SCRIPT} {' '.join(words)}", stdin or None)
        return read_reply(done.stdout.splitlines(), words, done.returncode)

    def apply(self, *calls: Call) -> list[Reply]:
        """Several verbs over one channel."""
        sent = apply_command({}, calls)
        return read_replies(self.run(sent.command, sent.stdin).stdout.splitlines(), calls)

    def stage(self, release: TinyRelease) -> Reply:
        """The release's folder comes to lie on the host."""
        return self.apply(stage_call(release.name, release.id, release.files))[0]

    def activate(self, release: TinyRelease, deadline_s: int = 300, run: str = "run1") -> Reply:
        """Stage and switch."""
        staged = self.stage(release)
        assert staged.error is None, staged.error
        return self.call("activate", release.name, release.id, str(deadline_s), run)

    def confirm(self, release: TinyRelease) -> Reply:
        """The proof is in."""
        return self.call("confirm", release.name, release.id, stdin='{"answer": "42"}')

    def prove(self, release: TinyRelease) -> None:
        """A release from nothing to proven."""
        for reply in (self.activate(release), self.confirm(release)):
            assert reply.error is None, reply

    def answer(self, release: TinyRelease) -> str:
        """The id of the release that answers on the service's port, or an empty text."""
        return self.out(f"curl -sm 2 http://127.0.0.1:{release.port}/")

    def wait_answer(self, release: TinyRelease, wanted: TinyRelease, limit_s: float = 20) -> None:
        """Until the wanted release answers on the port."""
        deadline = time.monotonic() + limit_s
        while (found := self.answer(release)) != wanted.id:
            assert time.monotonic() < deadline, f"want {wanted.id} to answer, found {found!r}\n{self.told(release)}"
            time.sleep(0.2)

    def state(self, release: TinyRelease) -> dict[str, str]:
        """What lies on the host for the service, short."""
        folder = f"{STATE}/{release.name}"
        unit = f"vllm-{release.name}.service"
        lines = self.out(
            f"cd {folder} 2>/dev/null || exit; "
            "echo current=$(readlink current); echo releases=$(ls -A releases);"
            "for f in proven previous pending; do echo $f=$(cat $f 2>/dev/null); done;"
            f"echo enabled=$(systemctl is-enabled {unit} 2>/dev/null); echo active=$(systemctl is-active {unit});"
            f"echo timer=$(systemctl is-active vllm-fleet-undo@{release.name}.timer);"
            f"echo unit=$(sha256sum </etc/systemd/system/{unit} | cut -c-64)"
        )
        return dict(line.split("=", 1) for line in lines.splitlines())

    def wait_state(self, release: TinyRelease, limit_s: float = 20, **wanted: str) -> None:
        """Until `state` shows what is wanted."""
        deadline = time.monotonic() + limit_s
        while not wanted.items() <= (found := self.state(release)).items():
            assert time.monotonic() < deadline, f"want {wanted}, found {found}\n{self.told(release)}"
            time.sleep(0.2)

    def told(self, release: TinyRelease) -> str:
        """For the message of a failed test."""
        unit = f"vllm-{release.name}"
        log = self.out(f"journalctl --no-pager -n 40 -u {unit} -u 'vllm-fleet-*'")
        return f"{self.state(release)}\n{log}"

    def settled_on(self, release: TinyRelease, previous: str = "") -> None:
        """This release is current, proven, installed and active, and nothing is pending."""
        state = self.state(release)
        unit = hashlib.sha256(release.unit.encode()).hexdigest()
        wanted = {"current": f"releases/{release.id}", "proven": release.id, "previous": previous, "pending": ""}
        wanted |= {"enabled": "enabled", "active": "active", "timer": "inactive", "unit": unit}
        assert {name: state.get(name) for name in wanted} == wanted, self.told(release)
        assert self.answer(release) == release.id
