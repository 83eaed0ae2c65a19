"""A release: everything rendered for one service on one node, named by the digest of its content."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from fleet.engines.patch import Applied, Patch, full_version
from fleet.frozen import Frozen
from fleet.nodes.node import Installed
from fleet.plan import Plan
from fleet.releases.command import STATE, container_argv, engine_argv, engine_env, patched_files
from fleet.releases.systemd import environment_file

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where an engine is asked on its own node that listens on all addresses."""
UNIT, ENV, SECRETS, PLAN, PATCHES = "unit", "env", "secrets.env", "plan.json", "patches.json"


class Release(Frozen):
    """Rendered files of one service on one node, by name in the release's folder. Secrets are not in here."""

    id: str
    service: str
    node: str
    files: dict[str, str]
    secret_names: tuple[str, ...] = ()
    patched: tuple[str, ...] = ()
    """Files of the engine that lie there patched. They are no part of `files`: only the image has what they come of."""

    def __str__(self) -> str:
        return f"{self.service}@{self.id}"


def plan_document(plan: Plan) -> dict[str, Any]:
    """plan.json: what was decided, in full, for audits and for the next run's difference. Stable between runs."""
    layout = plan.layout
    if layout is None:
        raise ValueError(f"{plan.service.name} on {plan.node.name}: no layout: {plan.layout_error}")
    document = {
        "format": 1,
        "service": plan.service.name,
        "node": plan.node.name,
        "model": plan.service.model,
        "image": plan.service.image.reference,
        "engine": plan.service.image.engine,
        "port": plan.service.port,
        "layout": {
            "tp": layout.tp,
            "pp": layout.pp,
            "dp": layout.dp,
            "partition": list(layout.partition) if layout.partition else None,
            "device_order": list(layout.device_order),
        },
        "ranks": [rank.model_dump() for rank in plan.ranks],
        "argv": list(engine_argv(plan)),
        "env": engine_env(plan),
        "secrets": sorted(plan.service.secrets),
        "command": list(container_argv(plan)),
        "policy": plan.service.policy.model_dump(mode="json", include={"start_budget_s", "stop_grace_s"}),
    }
    if plan.span is not None:
        span = plan.span
        document["span"] = {"nodes": list(span.nodes), "rank": span.rank, "digest": span.digest}
        # How this host sees that another is gone; one text, that the node's own script reads without a parser of JSON.
        looks = f"all_joined {span.port}" if plan.serves else f"head_answers {plan.service.port}"
        document["follow"] = " ".join((looks, *(span.peers if plan.serves else (span.head,))))
    if (beat := plan.service.policy.heartbeat) is not None and plan.serves:
        host = EVERYWHERE.get(plan.service.host, plan.service.host)
        # One text, that the node's own script reads without a parser of JSON.
        document["heartbeat"] = f"{host} {plan.service.port} {beat.deadline_s} {beat.misses} {plan.service.served_name}"
    if plan.patches:
        document["patches"] = [_patch_document(patch, plan.service.image.engine) for patch in plan.patches]
    return document


def _patch_document(patch: Patch, engine: str) -> dict[str, Any]:
    """A patch by name and digest, and the files of the engine that it is for, by SHA-256."""
    version = full_version(engine)
    return {
        "name": patch.name,
        "digest": patch.digest,
        "files": {file.path: file.sha256[version] for file in patch.files},
    }


def patched_release_files(plan: Plan, applied: Sequence[Applied]) -> dict[str, str]:
    """The patched files as they lie in the release, and patches.json: what was read from the image, what came of it."""
    names = patched_files(plan)
    rows = [
        {
            "path": one.path,
            "target": f"{plan.service.image.packages}/{one.path}",
            "file": names[one.path],
            "pristine_sha256": one.pristine,
            "sha256": one.sha256,
            "patches": list(one.patches),
        }
        for one in applied
    ]
    document = {"format": 1, "image": plan.service.image.reference, "files": rows}
    texts = {names[one.path]: one.text for one in applied}
    return {**texts, PATCHES: json.dumps(document, indent=1, sort_keys=True) + "\n"} if applied else {}


def secrets_mark(secrets: dict[str, str], salt: str) -> str:
    """A mark that changes when a secret does, and from which a secret cannot be guessed cheaply (scrypt)."""
    if not secrets:
        return ""
    document = json.dumps(secrets, sort_keys=True).encode()
    return hashlib.scrypt(document, salt=salt.encode(), n=2**12, r=8, p=1, dklen=16).hex()


def make_release(plan: Plan, unit: str, mark: str = "") -> Release:
    """The release of a plan: `unit` is the rendered unit file, `mark` the mark of its secrets."""
    files = {
        UNIT: unit,
        ENV: environment_file(engine_env(plan)),
        PLAN: json.dumps(plan_document(plan), indent=1, sort_keys=True, ensure_ascii=False) + "\n",
    }
    content = json.dumps([files, sorted(plan.service.secrets), mark], sort_keys=True).encode()
    return Release(
        id=hashlib.sha256(content).hexdigest()[:16],
        service=plan.service.name,
        node=plan.node.name,
        files=files,
        secret_names=tuple(sorted(plan.service.secrets)),
        patched=tuple(patched_files(plan).values()),
    )


def adopted(release: Release, lies: Installed) -> Release:
    """The release under the name of the current one of a node, where that was made of the same plan.

    For recorded nodes, whose secrets are not known to who replays them: these go into the name, and into no file.
    """
    plan = f"{STATE}/{release.service}/releases/{lies.current}/{PLAN}"
    text = next((file.text for file in lies.files if file.path == plan), None)
    return release.model_copy(update={"id": lies.current}) if text == release.files[PLAN] else release
