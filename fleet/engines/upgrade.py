"""What another engine version would mean for a declared service: nothing is changed, everything is judged twice."""

from collections.abc import Iterable
from typing import Literal

from fleet.argv.catalog import Catalog
from fleet.argv.check import check_argv
from fleet.engines.engine_difference import Change, differences
from fleet.engines.patch import unneeded
from fleet.frozen import Frozen
from fleet.layouts.boundary import Partition
from fleet.layouts.layout import Layout
from fleet.layouts.repair_cost import predicted_pool
from fleet.plan import Plan, question
from fleet.releases.command import engine_argv, engine_env
from fleet.verdict import Status, Verdict

OF_THE_IMAGE = ("image-engine",)
"""Gates that compare the image with the declared version: the upgrade brings another image."""


class FlagChange(Frozen):
    """One thing about the command line or the environment that is another with the new version."""

    kind: Literal["refused", "fails", "warning", "default", "variable", "rendered"]
    """refused, fails, warning: as the new version judges what is rendered. default: a default changed under a flag that
    is not set. variable: a variable that is set is not read any more. rendered: our own words change."""
    flag: str | None
    message: str
    suggestion: str | None = None

    @property
    def stops(self) -> bool:
        """Must it be changed before the upgrade?"""
        return self.kind in ("refused", "fails")

    def __str__(self) -> str:
        about = f"{self.flag}: " if self.flag else ""
        return f"{self.kind:>8}  {about}{self.message}" + (f"; {self.suggestion}" if self.suggestion else "")


class PatchChange(Frozen):
    """A source patch with the new version."""

    name: str
    kind: Literal["does not apply", "not needed", "no longer used", "newly used", "applies"]
    message: str = ""


class GateChange(Frozen):
    """A gate whose answer is another with the new version."""

    gate: str
    service: str | None
    before: Status
    after: Status
    text: str
    """What it says with the new version; of a gate that passes then, what it said before."""


class Memory(Frozen):
    """KV tokens of the pool, predicted with both versions; `unknown` where the ledger cannot tell."""

    partition: Partition | None = None
    before: int | None = None
    after: int | None = None
    unknown: str | None = None


class Upgrade(Frozen):
    """All of it, for one service on one node."""

    service: str
    node: str
    old: str
    new: str
    flags: tuple[FlagChange, ...]
    patches: tuple[PatchChange, ...]
    gates: tuple[GateChange, ...]
    memory: Memory

    @property
    def stops(self) -> bool:
        """Is there something to change or to decide before this node can be upgraded?"""
        worse = any(one.after == "fail" and one.before != "fail" for one in self.gates)
        lost = any(one.kind == "does not apply" for one in self.patches)
        return worse or lost or any(one.stops for one in self.flags)


def upgrade(
    before: Plan,
    after: Plan,
    catalogs: tuple[Catalog, Catalog],
    verdicts: tuple[Iterable[Verdict], Iterable[Verdict]],
) -> Upgrade:
    """Compare the plans of one service on one node, and what the gates said of each. Old first, new second."""
    old, new = catalogs
    return Upgrade(
        service=before.service.name,
        node=before.node.name,
        old=old.version,
        new=new.version,
        flags=tuple(_flags(before, after, old, new)),
        patches=tuple(_patches(before, after)),
        gates=tuple(_gates(before, *verdicts)),
        memory=_memory(before, after),
    )


def _flags(before: Plan, after: Plan, old: Catalog, new: Catalog) -> Iterable[FlagChange]:
    if before.layout is None or after.layout is None:
        why = after.layout_error or before.layout_error
        return [FlagChange(kind="fails", flag=None, message=f"no command line, for there is no layout: {why}")]
    was, now = engine_argv(before), engine_argv(after)
    known = {(one.flag, one.message) for one in check_argv(old, list(was)).findings}
    found = [
        FlagChange(kind=one.level, flag=one.flag, message=one.message, suggestion=one.suggestion)
        for one in check_argv(new, list(now)).findings
        if (one.flag, one.message) not in known
    ]
    return [*found, *_variables(before, after, old, new), *_rendered(was, now), *_defaults(now, old, new)]


def _variables(before: Plan, after: Plan, old: Catalog, new: Catalog) -> list[FlagChange]:
    names = {*engine_env(after), *after.service.secrets}
    gone = sorted(name for name in names if name in old.environment and name not in new.environment)
    lost = [FlagChange(kind="variable", flag=name, message="is not read any more") for name in gone]
    was, now = engine_env(before), engine_env(after)
    ours = sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))
    told = [
        FlagChange(kind="rendered", flag=name, message=f"{was.get(name, 'not set')} -> {now.get(name, 'not set')}")
        for name in ours
    ]
    return lost + told


def _rendered(was: tuple[str, ...], now: tuple[str, ...]) -> list[FlagChange]:
    """What the plan itself decides otherwise."""
    gone = [word for word in was if word not in now]
    came = [word for word in now if word not in was]
    if not gone and not came:
        return []
    message = f"{' '.join(gone) or 'nothing'} -> {' '.join(came) or 'nothing'}"
    return [FlagChange(kind="rendered", flag=None, message=message)]


def _defaults(now: tuple[str, ...], old: Catalog, new: Catalog) -> list[FlagChange]:
    """Defaults that change under flags that are not set."""
    set_here = {new.options[name].flag for word in now if (name := word.split("=")[0].split(".")[0]) in new.options}

    def matters(change: Change) -> bool:
        flag = change.name.split(".")[0]
        return change.about in ("flag", "key") and change.what == "default" and flag not in set_here

    return [
        FlagChange(kind="default", flag=one.name, message=f"{one.old} -> {one.new}")
        for one in differences(old, new)
        if matters(one)
    ]


def _patches(before: Plan, after: Plan) -> Iterable[PatchChange]:
    was, now = {one.name: one for one in before.patches}, {one.name: one for one in after.patches}
    if after.patches_error is not None and after.patches_error != before.patches_error:
        lost = next((name for name in after.service.patches if name not in now), "a patch")
        yield PatchChange(name=lost, kind="does not apply", message=after.patches_error)
    version = after.service.image.engine
    for name, one in now.items():
        if unneeded(one, version):
            yield PatchChange(name=name, kind="not needed", message=f"engine {one.unneeded_from} does without it")
        elif name in was:
            yield PatchChange(name=name, kind="applies", message="written for both versions")
        else:
            yield PatchChange(name=name, kind="newly used", message=str(after.boundary or ""))
    for name in was:
        if name not in now and after.patches_error is None:
            yield PatchChange(name=name, kind="no longer used", message=str(after.boundary or "no boundary needs it"))


_ORDER: tuple[Status, ...] = ("pass", "waived", "warn", "fail")


def _gates(plan: Plan, before: Iterable[Verdict], after: Iterable[Verdict]) -> Iterable[GateChange]:
    was, now = _answers(plan, before), _answers(plan, after)
    for key in sorted(was.keys() | now.keys(), key=str):
        old, new = was.get(key, ("pass", "")), now.get(key, ("pass", ""))
        if old != new:
            gate, service = key
            text = new[1] or old[1]
            yield GateChange(gate=gate, service=service, before=old[0], after=new[0], text=text)


def _answers(plan: Plan, verdicts: Iterable[Verdict]) -> dict[tuple[str, str | None], tuple[Status, str]]:
    """The worst status of each gate about this node or this service on it, with everything that it says."""
    found: dict[tuple[str, str | None], tuple[Status, str]] = {}
    for one in verdicts:
        if one.node != plan.node.name or one.service not in (None, plan.service.name) or one.gate in OF_THE_IMAGE:
            continue
        status, text = found.get((one.gate, one.service), ("pass", ""))
        said = "" if one.status == "pass" else str(one)
        worst = max(status, one.status, key=_ORDER.index)
        found[one.gate, one.service] = (worst, "; ".join(filter(None, (text, said))))
    return found


def _memory(before: Plan, after: Plan) -> Memory:
    was, now = _tokens(before), _tokens(after)
    parts = after.layout.partition if after.layout else None
    unknown = next((one for one in (was, now) if isinstance(one, str)), None)
    if isinstance(was, str) or isinstance(now, str):
        return Memory(partition=parts, unknown=unknown)
    return Memory(partition=parts, before=was, after=now)


def _tokens(plan: Plan) -> int | str:
    """The pool that the ledger predicts, or why it cannot."""
    layout, sharing = plan.layout, plan.architecture.index_sharing if plan.architecture else None
    asked = question(plan.node, plan.service, plan.facts, plan.architecture, plan.evidence)
    if layout is None or asked is None:
        return plan.layout_error or plan.architecture_error or "the node's model or GPUs are not known"
    pool = predicted_pool(asked, layout)
    found = pool(_cut(plan, layout), sharing) if pool is not None else None  # type: ignore[arg-type]
    if found is None:
        memory = asked.memory()
        return memory if isinstance(memory, str) else "the ledger cannot tell for this layout"
    return found


def _cut(plan: Plan, layout: Layout) -> Partition:
    if layout.partition is not None:
        return layout.partition
    return (plan.architecture.layers,) if plan.architecture else ()
