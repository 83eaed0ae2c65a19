"""One engine over several hosts: do they reach one another, and are they alike?"""

import ipaddress
from collections.abc import Iterator

from fleet.gate import FleetView, PlacedFinding, gate
from fleet.gates.host import taken
from fleet.known import Undecidable, facts_of, layout_of
from fleet.nodes.node import Peer
from fleet.plan import Plan
from fleet.releases.command import engine_argv, engine_env
from fleet.verdict import Finding

CLOCK_S = 2.0
"""Seconds by which the clocks of two hosts may differ: logs and time-outs of one engine are read together."""
OWN_WORDS = ("--node-rank", "--master-addr", "--headless", "--numa-bind-nodes", "--api-server-count")
"""Flags in which hosts of one engine may differ, and of the environment the names below."""
OWN_NAMES = ("VLLM_HOST_IP", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "CUDA_VISIBLE_DEVICES", "NCCL_IB_HCA")


def _peers(plan: Plan) -> tuple[Peer, ...]:
    """What the node told of every other one. Raises Undecidable where one is missing."""
    if plan.span is None:
        return ()
    facts = facts_of(plan)
    told = {peer.name: peer for peer in facts.peers if peer.port == plan.span.port}
    missing = [name for name in plan.span.others if name not in told]
    if missing:
        raise Undecidable(f"what {plan.node.name} knows of {', '.join(missing)}", facts.peers_error or "nothing")
    return tuple(told[name] for name in plan.span.others)


@gate(
    "hosts-reach",
    reads="getent, ip route get, a connection from each host to the master port of each other",
    remedy="open the network between the hosts of {service} for {node}, all TCP ports, or correct the inventory",
    needs_facts=True,
)
def hosts_reach(plan: Plan) -> list[Finding]:
    """Every host of an engine resolves each other one, has a way to it, and gets an answer at the master port.

    Nobody need listen there yet: a refused connection is an answer. The engine also opens ports of its own choice,
    which nobody can try beforehand.
    """
    findings = []
    for peer in _peers(plan):
        want = f"{peer.name} to answer at port {peer.port}"
        if peer.error is not None:
            raise Undecidable(f"the way to {peer.name}", peer.error)
        if peer.resolved is not None and ipaddress.ip_address(peer.resolved).is_loopback:
            findings.append(Finding(want=f"{peer.name} on the network", got=f"{peer.resolved}, this host itself"))
        elif peer.answer not in ("accepted", "refused"):
            findings.append(Finding(want=want, got=f"{peer.answer or 'nothing'} from {peer.resolved}"))
    return findings


@gate(
    "hosts-interface",
    reads="ip route get",
    remedy="declare addresses of one network for the hosts of {service}, or set NCCL_SOCKET_IFNAME in its env",
    needs_facts=True,
)
def hosts_interface(plan: Plan) -> Finding | None:
    """A host reaches all others of its engine by one interface, with one address: the engine is told of one."""
    ways = {(peer.interface or "unknown", peer.source or "unknown") for peer in _peers(plan)}
    if plan.span is None or (len(ways) == 1 and "unknown" not in next(iter(ways))):
        return None
    got = ", ".join(f"{interface} ({source})" for interface, source in sorted(ways))
    return Finding(want="one interface and address towards the others", got=got)


@gate(
    "hosts-port",
    reads="ss, port and master_port of each service",
    remedy="stop it, or choose another master_port for {service}",
    needs_facts=True,
)
def hosts_port(plan: Plan) -> Finding | None:
    """On the head of an engine nobody but its own unit listens on the master port."""
    return taken(plan, plan.span.port, "master port") if plan.span is not None and plan.serves else None


@gate(
    "hosts-ports-shared",
    reads="port and master_port of each service of a node",
    remedy="give each service on {node} a port and a master_port of its own",
)
def hosts_ports_shared(fleet: FleetView) -> list[PlacedFinding]:
    """The master port of an engine is no other service's port or master port on its head."""
    findings = []
    for plan in _heads(fleet):
        port = plan.service.master_port
        for other in fleet.plans:
            if other.node.name != plan.node.name or other.service.name == plan.service.name:
                continue
            theirs = {other.service.port} if other.serves else set()
            theirs |= {other.service.master_port} if other.span and other.serves else set()
            if port in theirs:
                want = f"master port {port} for {plan.service.name} alone"
                findings.append(_at(plan, want, f"{other.service.name} on {port} too"))
    return findings


@gate(
    "hosts-listen",
    reads="host of the service",
    remedy="set host of {service} to 0.0.0.0 or the head's address",
)
def hosts_listen(plan: Plan) -> Finding | None:
    """The head of an engine listens where its other hosts can ask whether it serves."""
    host = plan.service.host
    loopback = host == "localhost" or host == "::1" or host.startswith("127.")
    if plan.span is None or not loopback:
        return None
    return Finding(want="an address that other hosts reach", got=host)


@gate(
    "hosts-backend",
    reads="flags of the service",
    remedy="take --distributed-executor-backend out of {service}: hosts are joined by the engine's own backend mp",
)
def hosts_backend(plan: Plan) -> Finding | None:
    """Several hosts run one engine by the backend mp; the engine refuses --nnodes with another (vLLM)."""
    backend = plan.service.flags.get("--distributed-executor-backend", "mp")
    return None if plan.span is None or backend == "mp" else Finding(want="backend mp", got=str(backend))


def _heads(fleet: FleetView) -> Iterator[Plan]:
    return (plan for plan in fleet.plans if plan.span is not None and plan.serves)


def _pairs(fleet: FleetView) -> Iterator[tuple[Plan, Plan]]:
    """The head of each engine with each of its other hosts that this run is about."""
    plans = {(plan.node.name, plan.service.name): plan for plan in fleet.plans}
    for head in _heads(fleet):
        for name in head.nodes[1:]:
            other = plans.get((name, head.service.name))
            if other is not None and other.span is not None and other.span.nodes == head.nodes:
                yield head, other


def _at(plan: Plan, want: str, got: str, unknown: bool = False, warning: bool = False) -> PlacedFinding:
    return PlacedFinding(
        node=plan.node.name, service=plan.service.name, want=want, got=got, unknown=unknown, warning=warning
    )


@gate(
    "hosts-address",
    reads="getent and ip route get of each host",
    remedy="give {node} one address that all hosts of {service} know it by (no NAT, no second network between them)",
    needs_facts=True,
)
def hosts_address(fleet: FleetView) -> list[PlacedFinding]:
    """Each host of an engine speaks to the others with the address by which they know it."""
    findings = []
    plans = {(plan.node.name, plan.service.name): plan for plan in fleet.plans if plan.span is not None}
    for (node, service), plan in plans.items():
        if plan.span is None or plan.facts is None:
            continue  # what did not answer fails by itself
        own = {peer.source for peer in plan.facts.peers if peer.name in plan.span.others and peer.source}
        for name in plan.span.others:
            there = plans.get((name, service))
            if there is None or there.facts is None:
                continue
            known = next((p.resolved for p in there.facts.peers if p.name == node and p.port == plan.span.port), None)
            if known is None or not own:
                findings.append(_at(plan, f"the address by which {name} knows {node}", "unknown", unknown=True))
            elif own != {known}:
                findings.append(_at(plan, f"{known}, by which {name} knows it", ", ".join(sorted(own))))
    return findings


@gate("hosts-image", reads="image of each host", remedy="give every host of {service} one image")
def hosts_image(fleet: FleetView) -> list[PlacedFinding]:
    """All hosts of an engine run one image, by digest: its processes speak a protocol without a version."""
    return [
        _at(other, f"{head.service.image.reference} as on {head.node.name}", other.service.image.reference)
        for head, other in _pairs(fleet)
        if other.service.image.digest != head.service.image.digest
    ]


@gate(
    "hosts-gpus",
    reads="gpus of the inventory, nvidia-smi of each host",
    severity="fail or warn",
    remedy="run {service} on hosts of one kind, with one driver",
    needs_facts=True,
)
def hosts_gpus(fleet: FleetView) -> list[PlacedFinding]:
    """All hosts of an engine have one kind of GPU and one driver; another release of the same branch is a warning."""
    findings = []
    for head, other in _pairs(fleet):
        want, got = (f"{one.node.gpus.model} {one.node.gpus.memory_mib} MiB" for one in (head, other))
        if want != got:
            findings.append(_at(other, f"{want} as on {head.node.name}", got))
        if head.facts is None or other.facts is None:
            continue
        here, there = head.facts.nvidia.driver, other.facts.nvidia.driver
        if here is None or there is None:
            if layout_of(other).ranks and (head.node.gpus.count or other.node.gpus.count):
                found = f"{here or 'none'} on {head.node.name}, {there or 'none'} here"
                findings.append(_at(other, "the driver of both hosts", found, unknown=True))
        elif here != there:
            branch = here.partition(".")[0] == there.partition(".")[0]
            findings.append(_at(other, f"driver {here} as on {head.node.name}", there, warning=branch))
    return findings


@gate(
    "hosts-clock",
    reads="the clock of each host, in the probe",
    remedy="let one time server keep the clocks of all hosts of {service}",
    needs_facts=True,
)
def hosts_clock(fleet: FleetView) -> list[PlacedFinding]:
    """The clocks of an engine's hosts differ by two seconds at most."""
    findings = []
    for head, other in _pairs(fleet):
        if head.facts is None or other.facts is None:
            continue
        want = f"within {CLOCK_S:g} s of {head.node.name}"
        here, there = head.facts.clock_ahead_s, other.facts.clock_ahead_s
        if here is None or there is None:
            findings.append(_at(other, want, "a clock that could not be compared", unknown=True))
        elif abs(apart := there - here) > CLOCK_S:
            findings.append(_at(other, want, f"{abs(apart):.1f} s {'ahead' if apart > 0 else 'behind'}"))
    return findings


@gate(
    "hosts-alike",
    reads="the command line and environment of each host",
    remedy="declare {service} the same for all its hosts; gpus, mounts and addresses may differ",
)
def hosts_alike(fleet: FleetView) -> list[PlacedFinding]:
    """All hosts of an engine are told the same, but for their own place in it."""
    findings = []
    for head, other in _pairs(fleet):
        want, got = (_told(plan) for plan in (head, other))
        apart = sorted(want.items() ^ got.items())
        if apart:
            names = ", ".join(dict.fromkeys(name for name, _ in apart))
            findings.append(_at(other, f"the settings of {head.node.name}", f"another value of {names}"))
    return findings


def _told(plan: Plan) -> dict[str, str]:
    """Flags and variables of a host's engine that all must share."""
    layout_of(plan)
    told: dict[str, str] = {}
    name = "model"
    for word in engine_argv(plan)[2:]:
        if word.startswith("--"):
            name = word
            told[name] = ""
        else:
            told[name] = f"{told.get(name, '')} {word}"
    told |= engine_env(plan)
    return {name: value for name, value in told.items() if name not in (*OWN_WORDS, *OWN_NAMES)}
