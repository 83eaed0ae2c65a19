"""A node that serves a proven release exactly as declared, for audits, and ways to change one thing of what it told."""

import hashlib
import json
from typing import Any

from fleet.audit import Audit
from fleet.drift import Case, Drift, audit
from fleet.nodes.node import Installed, NodeFacts, OwnFile, Port, Unit
from fleet.nodes.running import EngineProcess, Mounted, Report, Running, RunningImage
from fleet.plan import NodeView, Plan
from fleet.releases.command import STATE, container_argv, engine_argv, engine_env
from fleet.releases.difference import compare, expected_files
from fleet.releases.release import SECRETS, Release, make_release
from tests.fleet.builders import DIGEST, facts, node, plans_of, service, view

DIGESTS = {"VLLM_API_KEY": "d" * 64}
START = "a" * 32
CONFIG = "c" * 64
OVERLAY = Mounted(source="/srv/fix.py", target="/opt/fix.py", same=True, sha256="e" * 64)
MEASURED = {"kv_cache_size_tokens": "1000000", "num_gpu_blocks": "62500", "block_size": "16", "cache_dtype": "auto"}


def declared_service() -> Any:
    """glm with a secret and a mounted file."""
    mount = {"source": OVERLAY.source, "target": OVERLAY.target}
    return service(secrets={"VLLM_API_KEY": {"env": "KEY"}}, mounts=[mount])


def _release(plan: Plan) -> Release:
    return make_release(plan, "[Unit]\n", "mark")


def lying(plan: Plan, release: Release, **changes: Any) -> Installed:
    """The release, current and proven."""
    files = [
        OwnFile(path=path, sha256=hashlib.sha256(text.encode()).hexdigest(), mode=mode, owner="root:root", text=text)
        for path, (mode, text) in expected_files(release).items()
    ]
    secret = f"{STATE}/glm/releases/{release.id}/{SECRETS}"
    files.append(OwnFile(path=secret, sha256="", mode="600", owner="root:root"))
    proof = {
        "release": release.id,
        "when": "2026-11-30T05:00:00+00:00",
        "summary": "completion: 2 answers",
        "measured": MEASURED,
        "model_config_sha256": CONFIG,
    }
    sound = {
        "name": "glm",
        "current": release.id,
        "proven": release.id,
        "previous": "0" * 16,
        "releases": ("0" * 16, release.id),
        "files": tuple(files),
        "secrets": DIGESTS,
        "started": START,
        "mounted": {OVERLAY.source: OVERLAY.sha256},
        "proof": json.dumps(proof),
        "unit": unit(),
    }
    return Installed.model_validate(sound | changes)


def unit(**changes: Any) -> Unit:
    """The unit as it was started for the proof."""
    sound = {
        "name": "vllm-glm.service",
        "load": "loaded",
        "active": "active",
        "sub": "running",
        "enabled": "enabled",
        "restarts": 0,
        "active_since": "Mon 2026-11-30 05:00:00 UTC",
        "invocation": START,
        "fragment": "/etc/systemd/system/vllm-glm.service",
        "stale": False,
    }
    return Unit.model_validate(sound | changes)


def reports(**bodies: Any) -> tuple[Report, ...]:
    """What the engine answers; a path without slashes in `bodies` replaces one (v1_models, version, metrics)."""
    model = {"id": "glm", "root": "/models/glm-5.2", "max_model_len": 524288}
    labels = ",".join(f'{name}="{value}"' for name, value in MEASURED.items())
    told = {
        "/v1/models": json.dumps({"data": [model]}),
        "/version": json.dumps({"version": "0.30.0"}),
        "/metrics": f"vllm:cache_config_info{{{labels}}} 1.0",
    }
    given = {f"/{name.replace('_', '/')}": body for name, body in bodies.items()}
    return tuple(
        body if isinstance(body, Report) else Report(path=path, status=200, body=body)
        for path, body in {**told, **given}.items()
    )


def engine(plan: Plan, **changes: Any) -> EngineProcess:
    """The engine's process, started with exactly the plan."""
    env = engine_env(plan)
    sound = {
        "pid": 42,
        "unit": "vllm-glm.service",
        "argv": engine_argv(plan),
        "env": env,
        "env_names": (*env, "VLLM_API_KEY", "PATH", "HOSTNAME", "NVIDIA_VISIBLE_DEVICES", "CUDA_VERSION"),
        "secrets": DIGESTS,
        "command": container_argv(plan),
        "image": RunningImage(digest=DIGEST, env_names=("PATH", "CUDA_VERSION")),
        "mounts": (OVERLAY,),
        "reports": reports(),
    }
    return EngineProcess.model_validate(sound | changes)


def case(
    lies: dict[str, Any] | None = None,
    runs: dict[str, Any] | None = None,
    told: dict[str, Any] | None = None,
    others: tuple[EngineProcess, ...] = (),
) -> tuple[Case, NodeView]:
    """a1 with glm; `lies`, `runs` and `told` change what lies there, what runs, and other facts of the node."""
    first = view(node(), declared_service(), told=facts())
    (plan,) = plans_of(first)
    release = _release(plan)
    model = first.facts.models[0].model_copy(update={"config_sha256": CONFIG}) if first.facts else None
    running = Running(engines=(engine(plan, **(runs or {})), *others))
    port = Port(port=8000, process="vllm", pid=42, unit="vllm-glm.service")
    sound: dict[str, Any] = {
        "services": (lying(plan, release, **(lies or {})),),
        "running": running,
        "models": (model,),
        "ports": (port,),
    }
    seen = facts(**(sound | (told or {})))
    return of(seen)


def of(seen: NodeFacts) -> tuple[Case, NodeView]:
    """The case of a node that told this."""
    one = view(node(), declared_service(), told=seen)
    (plan,) = plans_of(one)
    release = _release(plan)
    return Case(plan=plan, release=release, change=compare(plan, release, DIGESTS), digests=DIGESTS), one


def found(**changes: Any) -> tuple[Drift, ...]:
    """What the checks find on a1, with changes as `case` takes them."""
    one, seen = case(**changes)
    return audit([one], [seen])


def whole(*pairs: tuple[Case, NodeView], **more: Any) -> Audit:
    """An audit of these nodes."""
    cases, views = tuple(one for one, _ in pairs), tuple(seen for _, seen in pairs)
    drifts = (*audit(cases, views), *more.pop("drifts", ()))
    return Audit(
        fleet=more.pop("fleet", "prod"),
        when="2026-11-30T06:00:00+00:00",
        views=views,
        unread=more.pop("unread", {}),
        cases=cases,
        verdicts=more.pop("verdicts", ()),
        drifts=drifts,
    )
