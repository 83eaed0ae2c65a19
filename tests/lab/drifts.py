"""Drifts made by hand on a rolled node: what somebody does there, what an audit must name, and the way back."""

from dataclasses import dataclass

UNIT = "/etc/systemd/system/vllm-llm.service"
STATE = "/var/lib/vllm-fleet/llm"
NODE = "/usr/local/lib/vllm-fleet/node"
HAND = "/srv/by-hand"
PUT_BACK = f"cp -a {HAND}/installed {UNIT}; cp -a {HAND}/env {HAND}/secrets.env {HAND}/plan.json {STATE}/current/"
RESTART = "systemctl daemon-reload; systemctl restart vllm-llm"
ANEW = f"{PUT_BACK}; {RESTART} && {NODE} start llm"
PREPARE = (
    f"mkdir -p {HAND} && cp -a {STATE}/current/. {HAND}/ && cp -a {UNIT} {HAND}/installed && "
    "cp -a /srv/mounted.txt /srv/mounted.orig"
)


@dataclass(frozen=True)
class ByHand:
    """One drift. `checks`: all that the audit must name on that node, and nothing else."""

    name: str
    by: str
    checks: frozenset[str]
    back: str
    says: str = ""
    """Words that the audit must print."""


def _drift(name: str, by: str, checks: str, back: str, says: str = "") -> ByHand:
    return ByHand(name, by, frozenset(checks.split()), back, says)


def _while_running(edit: str) -> str:
    """Something edited, the engine started with it, and the files put back: only the process tells."""
    return f"{edit}; {RESTART}; {PUT_BACK}; systemctl daemon-reload"


DRIFTS = (
    _drift("env edited", f"echo 'EXTRA=\"hunter2\"' >>{STATE}/current/env", "files", PUT_BACK, "EXTRA=(not declared)"),
    _drift(
        "GPU order of the running process",
        _while_running(f"sed -i 's/^CUDA_VISIBLE_DEVICES=.*/CUDA_VISIBLE_DEVICES=\"1,0\"/' {STATE}/current/env"),
        "env restarts",
        ANEW,
        "want CUDA_VISIBLE_DEVICES=0,1, found 1,0",
    ),
    _drift("unit edited", f"sed -i 's/^RestartSec=.*/RestartSec=1/' {UNIT}", "files unit", PUT_BACK, "+RestartSec=1"),
    _drift(
        "image swapped",
        _while_running(f"sed -i 's/@sha256:[0-9a-f]*/@OTHER_IMAGE/' {UNIT}"),
        "command running-image reported-version restarts",
        ANEW,
        "OTHER_IMAGE",
    ),
    _drift(
        "argv of the running process",
        _while_running(f"sed -i 's/--max-model-len 4096/--max-model-len 2048/' {UNIT}"),
        "command argv reported-model restarts",
        ANEW,
        "want max_model_len 4096, found 2048",
    ),
    _drift(
        "argv in another order",
        _while_running(
            f"sed -i 's/--max-model-len 4096/MML/; s/--kv-cache-dtype auto/--max-model-len 4096/; "
            f"s/MML/--kv-cache-dtype auto/' {UNIT}"
        ),
        "command argv restarts",
        ANEW,
    ),
    _drift(
        "restarted by somebody", "systemctl restart vllm-llm", "restarts", f"{NODE} start llm", "another one, active"
    ),
    _drift(
        "killed, and restarted by systemd",
        "systemctl kill -s KILL vllm-llm; sleep 10.5; until systemctl -q is-active vllm-llm; do sleep 0.3; done",
        "restarts",
        "systemctl restart vllm-llm && " + f"{NODE} start llm",
        "by systemd; active since",
    ),
    _drift("mode of secrets.env", f"chmod 644 {STATE}/current/secrets.env", "files", PUT_BACK, "found 644 root:root"),
    _drift("secrets.env changed", f"sed -i 's/key/KEY/' {STATE}/current/secrets.env", "secrets", PUT_BACK),
    _drift(
        "a secret of the running process",
        _while_running(f"sed -i 's/key/KEY/' {STATE}/current/secrets.env"),
        "secret-env restarts",
        ANEW,
    ),
    _drift("plan.json edited", f"sed -i 's/4096/9999/' {STATE}/current/plan.json", "files", PUT_BACK, "9999"),
    _drift(
        "node script replaced", f"cp {NODE} {HAND}/node; echo '# mine' >>{NODE}", "support", f"cp {HAND}/node {NODE}"
    ),
    _drift(
        "boot unit disabled",
        "systemctl disable -q vllm-fleet-boot.service",
        "undo-units",
        "systemctl enable -q vllm-fleet-boot.service",
    ),
    _drift(
        "undo timer masked",
        "systemctl mask --runtime -q vllm-fleet-undo@llm.timer",
        "undo-units",
        "systemctl unmask --runtime -q vllm-fleet-undo@llm.timer",
    ),
    _drift(
        "unit masked",
        f"ln -sfn /dev/null {UNIT}; systemctl daemon-reload",
        "unit files",
        f"rm {UNIT}; {PUT_BACK}; systemctl daemon-reload",
        "found masked",
    ),
    _drift(
        "drop-in added",
        f"mkdir -p {UNIT}.d; printf '[Service]\\nNice=5\\n' >{UNIT}.d/mine.conf; systemctl daemon-reload",
        "unit",
        f"rm -r {UNIT}.d; systemctl daemon-reload",
        "mine.conf",
    ),
    _drift("service disabled", "systemctl disable -q vllm-llm", "unit", "systemctl enable -q vllm-llm"),
    _drift(
        "stopped, and the port taken",
        "systemctl stop vllm-llm; cd /srv; systemd-run -q --unit=thief python3 -m http.server 8000; "
        "until ss -Hltn | grep -q :8000; do sleep 0.1; done",
        "unit port port-free",
        f"systemctl stop thief; {NODE} start llm",
        "python3 (thief.service)",
    ),
    _drift(
        "a second engine by hand",
        "podman run -d --rm --name mine --network host --device nvidia.com/gpu=3 --volume /srv/models:/srv/models:ro "
        "--entrypoint vllm DECLARED_IMAGE serve /srv/models/llama-70b --served-model-name mine --port 8123 "
        "--api-key hunter2-long; until ss -Hltn | grep -q :8123; do sleep 0.1; done",
        "strangers",
        "podman rm -f -t 0 mine",
        "--served-model-name mine --port 8123 --api-key ***",
    ),
    _drift(
        "a file that is mounted, replaced",
        "cp /srv/mounted.txt /srv/new; echo more >>/srv/new; mv /srv/new /srv/mounted.txt",
        "mounts",
        f"cp -a --remove-destination /srv/mounted.orig /srv/mounted.txt; systemctl restart vllm-llm; {NODE} start llm",
    ),
    _drift(
        "a file that is mounted, edited in place",
        "echo more >>/srv/mounted.txt",
        "mounts",
        f"cat /srv/mounted.orig >/srv/mounted.txt; {NODE} start llm",
        "as at its start",
    ),
    _drift(
        "config.json of the model changed",
        "cp -a /srv/models/llama-70b/config.json /srv/config.json; "
        "sed -i 's/{/{\"mine\": 1,/' /srv/models/llama-70b/config.json",
        "model-folder",
        "cp -a /srv/config.json /srv/models/llama-70b/config.json",
    ),
    _drift(
        "the release before removed",
        f"mv {STATE}/releases/$(cat {STATE}/previous) {HAND}/gone",
        "marks",
        f"mv {HAND}/gone {STATE}/releases/$(cat {STATE}/previous)",
        "nothing to go back to",
    ),
    _drift(
        "pending left",
        f'echo "$(cat {STATE}/proven) 1 2 some-run" >{STATE}/pending',
        "marks release",
        f"rm {STATE}/pending",
    ),
    _drift(
        "another release made current",
        f"ln -sfn releases/$(cat {STATE}/previous) {STATE}/current",
        "release command argv reported-model",
        f"ln -sfn releases/$(cat {STATE}/proven) {STATE}/current",
    ),
    _drift(
        "a service that nobody declared",
        "mkdir -p /var/lib/vllm-fleet/ghost/releases",
        "undeclared",
        "rm -r /var/lib/vllm-fleet/ghost",
        "no service ghost",
    ),
    _drift(
        "proof removed", f"mv {STATE}/current/proof.json {HAND}/", "proof", f"mv {HAND}/proof.json {STATE}/current/"
    ),
)

TOGETHER = (
    (
        "GPU order of the running process",
        "mode of secrets.env",
        "node script replaced",
        "a service that nobody declared",
    ),
    ("image swapped", "env edited", "boot unit disabled", "config.json of the model changed"),
    ("argv of the running process", "unit edited", "proof removed"),
    ("argv in another order", "plan.json edited", "drop-in added", "undo timer masked"),
    ("restarted by somebody", "secrets.env changed", "service disabled", "the release before removed"),
    ("killed, and restarted by systemd", "unit masked", "a second engine by hand"),
    ("a secret of the running process", "a file that is mounted, edited in place"),
    ("stopped, and the port taken", "pending left"),
    ("a file that is mounted, replaced", "another release made current"),
)
"""Drifts that are done one after the other on one node before one audit: no check is named by two of them."""


def together() -> tuple[tuple[ByHand, ...], ...]:
    """The same as drifts. Every one is in one group, and the checks of a group tell its drifts apart."""
    by_name = {drift.name: drift for drift in DRIFTS}
    groups = tuple(tuple(by_name.pop(name) for name in names) for names in TOGETHER)
    checks = [[check for drift in group for check in drift.checks] for group in groups]
    if by_name or any(len(each) != len(set(each)) for each in checks):
        raise ValueError(f"want each drift in one group, with checks of its own, found {by_name or checks}")
    return groups
