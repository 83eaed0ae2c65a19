"""The release that lies on a node, against the declared one: which, its files, its secrets, its unit, its marks."""

import json
from collections.abc import Iterator

from fleet.drift import Case, Seen, check
from fleet.known import Undecidable
from fleet.releases.difference import MEANING, FileDiff, secret_words, wrong_files

DEPLOY = "pyinfra inventory.py deploy.py -y --limit {node}"


@check("release", remedy=f"{DEPLOY}, or declare what is there")
def current_release(case: Case) -> Iterator[Seen]:
    """The declared release is current and has proven itself."""
    lies = case.installed
    if case.change.kind not in ("create", "update"):
        return
    old = case.change.kind == "update"
    diff = tuple(line for file in case.change.files for line in file.lines()) if old else ()
    got = f"{lies.current} ({'; '.join(case.change.words) or MEANING[case.change.kind]})" if lies else "nothing"
    yield Seen(want=case.release.id, got=got if lies and lies.current else "no release", diff=diff)


@check("files", remedy=DEPLOY)
def files(case: Case) -> Iterator[Seen]:
    """Every file of the current release is as it was written: text, mode and owner."""
    lies = case.installed
    if lies is None or lies.current != case.release.id:
        return
    for file in wrong_files(lies, case.release):
        # From what should be to what is there: a change shows it the other way round.
        found = FileDiff(path=file.path, before=file.diff.after, after=file.diff.before) if file.diff else None
        diff = tuple(found.lines()) if found else ()
        yield Seen(want=f"{file.path} as released", got=file.problem, diff=diff)


@check("secrets", remedy=DEPLOY)
def secrets(case: Case) -> Iterator[Seen]:
    """Every secret of the current release has its declared value, compared by digest."""
    lies = case.installed
    if lies is None or lies.current != case.release.id:
        return
    for word in secret_words(lies, case.release, case.digests):
        name, _, what = word.removeprefix("secret ").partition(": ")
        gone = {"added": "none", "removed": "one that is not declared", "changed": "another value"}
        yield Seen(want=f"secret {name} as declared", got=gone[what])


@check("marks", remedy="look what happened in {service}/undo.log on {node}, then deploy")
def marks(case: Case) -> Iterator[Seen]:
    """The marks beside the releases can be read, and the release to go back to is there."""
    lies = case.installed
    if lies is None:
        return
    if lies.error:
        yield Seen(want="the state of the service as the node script writes it", got=lies.error)
    if lies.pending is not None:
        yield Seen(want="nothing pending", got=f"{lies.pending.release} pending, of run {lies.pending.run}")
    if lies.previous and lies.previous not in lies.releases:
        yield Seen(want=f"the release before, {lies.previous}", got="no complete folder of it: nothing to go back to")


@check("unit", remedy=DEPLOY)
def unit(case: Case) -> Iterator[Seen]:
    """The unit is loaded from our file alone, is active and enabled, and systemd has read it as it is."""
    lies = case.installed
    if lies is None or lies.current is None:
        return
    said = lies.unit
    if said is None:
        yield Seen(want=f"{case.unit} active", got="no unit")
        return
    if said.active != "active":
        yield Seen(want=f"{case.unit} active", got=f"{said.active} ({said.sub})", remedy="fleet start {service} {node}")
    if said.load != "loaded":
        yield Seen(want=f"{case.unit} loaded", got=said.load, remedy=f"systemctl unmask {case.unit}, then {DEPLOY}")
    elif said.enabled != "enabled":
        yield Seen(want=f"{case.unit} enabled", got=said.enabled or "nothing")
    for path in said.drop_ins:
        yield Seen(want="no drop-in", got=path, remedy="remove it on {node}, then systemctl daemon-reload")
    if said.fragment and said.fragment != f"/etc/systemd/system/{case.unit}":
        yield Seen(want=f"/etc/systemd/system/{case.unit}", got=said.fragment)
    if said.stale:
        yield Seen(
            want="the unit as systemd read it",
            got="a file that has changed since",
            remedy=f"systemctl daemon-reload on {{node}}, or {DEPLOY}",
        )


@check(
    "restarts", remedy="find out who or what (journalctl -u vllm-{service}); fleet start {service} {node} accepts it"
)
def restarts(case: Case) -> Iterator[Seen]:
    """What runs is the start that was proven: nobody and nothing restarted it since."""
    lies = case.installed
    if lies is None or lies.unit is None or not case.runs:
        return
    said = lies.unit
    if said.restarts:
        yield Seen(
            want="no restart since its start", got=f"{said.restarts} by systemd; active since {said.active_since}"
        )
    elif lies.started is None or said.invocation is None:
        accept = "fleet start {service} {node} accepts what runs"
        raise Undecidable("a mark of the start that was proven", "none: rolled out by an older version", accept)
    elif lies.started != said.invocation:
        yield Seen(want="the start that was proven", got=f"another one, active since {said.active_since}")


@check("model-folder", remedy="put the checkpoint back, or let it prove itself: fleet stop, deploy")
def model_folder(case: Case) -> Iterator[Seen]:
    """config.json of the checkpoint is the one that was proven."""
    proven, folder = case.proof.get("model_config_sha256"), case.plan.model_folder
    if proven is None or folder is None or folder.config_sha256 == proven:
        return
    found = f"{folder.config_sha256[:16]}..." if folder.config_sha256 else str(folder.error)
    yield Seen(want=f"config.json {str(proven)[:16]}... as proven", got=found)


@check("port", remedy="find out who (ss -ltnp on {node}) and end it")
def port(case: Case) -> Iterator[Seen]:
    """Nobody but the service listens on its port."""
    facts = case.plan.facts
    if facts is None or facts.ports_error:
        return  # the gates say so
    wanted = case.document.get("port") if case.installed and case.installed.current else case.plan.service.port
    for held in facts.ports:
        if held.port == wanted and held.unit != case.unit:
            yield Seen(
                want=f"port {wanted} for {case.unit}", got=f"{held.process or 'a process'} ({held.unit or held.pid})"
            )


@check("proof", remedy=DEPLOY)
def proof(case: Case) -> Iterator[Seen]:
    """The proof of the current release lies beside it and can be read."""
    lies = case.installed
    if lies is None or lies.current is None or lies.proven != lies.current:
        return
    try:
        told = json.loads(lies.proof or "")
        good = isinstance(told, dict) and told.get("release") == lies.current
    except ValueError:
        good = False
    if not good:
        yield Seen(want=f"proof.json of {lies.current}", got="none that can be read, or of another release")
