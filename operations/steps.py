"""What a host has to do in a rollout, one step a service: to a plan's release, or back to one that lies there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from fleet.declaration import NodeDeclaration
from fleet.nodes.node import Installed
from fleet.plan import Plan
from fleet.policy import ServicePolicy
from fleet.releases.current import current_document
from fleet.releases.difference import Change, Kind
from fleet.releases.release import ENV, PLAN, SECRETS, UNIT, Release
from fleet.span import serves, span_in
from probes.evidence import Endpoint

API_KEY = "VLLM_API_KEY"


@dataclass(frozen=True)
class Step:
    """One service on one node: what to activate, how to reach it, what was there before."""

    node: str
    service: str
    kind: Kind
    release: str
    endpoint: Endpoint
    policy: ServicePolicy
    layout: str
    partition: str
    old: Installed | None = None
    old_endpoint: Endpoint | None = None
    """Where the requests of what runs now are counted. Its key is not known here: see `operations.stored`."""
    nodes: tuple[str, ...] = ()
    """All that run the engine of the release together, the head first; of one alone, that one."""

    @property
    def deadline_s(self) -> int:
        """Seconds after which the node undoes by itself: the old engine's end, load, every probe, and a margin."""
        policy = self.policy
        probes = policy.proof_s * max(len(policy.proof), 1)
        return self.grace_s + policy.start_budget_s + probes + policy.undo_margin_s

    @property
    def grace_s(self) -> int:
        """Seconds that the running requests of the engine that is stopped get to end, by its own release."""
        return stored_seconds(current_document(self.old), "stop_grace_s") or self.policy.stop_grace_s

    @property
    def undo_s(self) -> int:
        """Seconds that an undo may take: the new engine's end, and the load of the old one by its own budget."""
        budget = max(self.policy.start_budget_s, stored_seconds(current_document(self.old), "start_budget_s"))
        return self.policy.stop_grace_s + budget + 120


def stored_seconds(document: dict[str, Any] | None, name: str) -> int:
    """A time of the policy that a release was made with, from its plan.json; 0 where that does not tell."""
    value = ((document or {}).get("policy") or {}).get(name)
    return value if isinstance(value, int) else 0


def _value(argv: list[Any], flag: str, fallback: str) -> str:
    words = list(map(str, argv))
    return words[words.index(flag) + 1] if flag in words[:-1] else fallback


def endpoint_of(node: NodeDeclaration, document: dict[str, Any], key: SecretStr | None) -> Endpoint:
    """Where the engine of a plan.json answers: on its head, where that is another host."""
    argv = document.get("argv") or []
    name = _value(argv, "--served-model-name", str(document.get("service", "")))
    address = node.address if serves(document) else _value(argv, "--master-addr", node.address)
    return Endpoint(url=f"http://{address}:{document.get('port', 8000)}", model=name, api_key=key)


def deploy_step(plan: Plan, change: Change, release: Release, key: str) -> Step:
    """The step that brings a service to its release."""
    node, service = plan.node, plan.service
    secret = SecretStr(key) if key else None
    before = current_document(plan.installed)
    before = before if serves(before) else None  # a part that answers nobody has no requests of its own
    return Step(
        node=node.name,
        service=service.name,
        kind=change.kind,
        release=release.id,
        endpoint=Endpoint(url=plan.url, model=service.served_name, api_key=secret),
        policy=service.policy,
        layout=str(plan.layout),
        partition=plan.layout.partition_text if plan.layout else "-",
        old=plan.installed,
        old_endpoint=endpoint_of(node, before, None) if before else None,
        nodes=plan.nodes,
    )


def back_step(plan: Plan, lies: Installed, release: str, document: dict[str, Any], endpoint: Endpoint) -> Step:
    """The step that brings back a release before: `document` is its plan.json, `endpoint` where it will answer."""
    now, layout, span = current_document(lies), document.get("layout") or {}, span_in(document)
    now = now if serves(now) else None
    partition = layout.get("partition")
    budget = stored_seconds(document, "start_budget_s") or plan.service.policy.start_budget_s
    return Step(
        node=plan.node.name,
        service=plan.service.name,
        kind="update",
        release=release,
        endpoint=endpoint,
        policy=plan.service.policy.model_copy(update={"start_budget_s": budget}),
        layout=f"TP{layout.get('tp')}/PP{layout.get('pp')}" + (f" on {len(span.nodes)} hosts" if span else ""),
        partition=",".join(map(str, partition)) if partition else "-",
        old=lies,
        old_endpoint=endpoint_of(plan.node, now, None) if now else None,
        nodes=span.nodes if span else (plan.node.name,),
    )


def release_files(
    release: Release, secrets_file: str, patched: Mapping[str, str] | None = None
) -> dict[str, tuple[str, str]]:
    """Name -> (mode, text) of every file of a release's folder, secrets and `patched` files of the engine included."""
    texts = {name: release.files[name] for name in (UNIT, ENV, PLAN)}
    if secrets_file:
        texts[SECRETS] = secrets_file
    texts |= patched or {}
    return {name: ("644" if name.startswith("patched-") else "600", text) for name, text in texts.items()}
