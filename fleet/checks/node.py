"""What is on a node beside the declared services: our own support, and engines that nobody declared."""

from collections.abc import Iterator

from fleet.drift import Seen, check
from fleet.known import Undecidable, facts_of
from fleet.plan import NodeView
from fleet.releases.command import unit_name

BOOT = "vllm-fleet-boot.service"


@check("undo-units", remedy="unmask or enable it on {node} (systemctl), or remove the drop-in")
def undo_units(view: NodeView) -> Iterator[Seen]:
    """What undoes without a controller is ready: the boot unit enabled, no unit masked or changed beside its file."""
    for unit in facts_of(view).support_units if view.facts else ():
        if unit.load != "loaded":
            yield Seen(want=f"{unit.name} loaded", got=unit.load)
        elif unit.name == BOOT and unit.enabled != "enabled":
            yield Seen(want=f"{unit.name} enabled", got=unit.enabled or "nothing")
        for path in unit.drop_ins:
            yield Seen(want=f"{unit.name} without a drop-in", got=path)


@check("strangers", remedy="end it on {node}, or declare it")
def strangers(view: NodeView) -> Iterator[Seen]:
    """No engine runs on the node beside those of the declared services."""
    if view.facts is None:
        return
    running = view.facts.running
    if running is None or running.error:
        raise Undecidable("the processes of the node", (running.error if running else None) or "not asked for")
    ours = {unit_name(service.name) for service in view.placement.services}
    first: set[str | None] = set()
    for engine in running.engines:
        if engine.unit in ours and engine.unit not in first:
            first.add(engine.unit)
            continue
        where = f" in {engine.unit}" if engine.unit else " in no unit"
        yield Seen(want="no other engine", got=f"pid {engine.pid}{where}: {' '.join(engine.argv)[:160]}")


@check("undeclared", remedy="take it away with --data prune=true, or declare it")
def undeclared(view: NodeView) -> Iterator[Seen]:
    """No service of ours lies on the node that is not declared for it."""
    if view.facts is None:
        return
    if view.facts.services_error:
        raise Undecidable("the services that lie on the node", view.facts.services_error)
    declared = {service.name for service in view.placement.services}
    for lies in view.facts.services:
        if lies.name not in declared:
            yield Seen(want=f"no service {lies.name}", got=f"release {lies.current or 'none'}")
