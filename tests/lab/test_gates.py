"""Each fault that a lab can show is set on a running host, and the gate of that subject names it."""

import json
from collections.abc import Iterator

import pytest
from rollout_site import RolloutSite

from facts.parse.probe import parse_probe
from facts.script import probe_script
from fleet.gate import FleetView, evaluate
from fleet.plan import NodeView, decide
from fleet.verdict import Verdict
from lab.lab import Lab

pytestmark = pytest.mark.lab


@pytest.fixture(autouse=True)
def healthy(lab: Lab) -> Iterator[None]:
    """No faults after each test."""
    yield
    for found in lab.nodes:
        lab.set(found.name, clear=True)


def judged(lab: Lab, name: str, deep: bool = True) -> list[Verdict]:
    """What the gates say of a host as the lab declares it: one probe, no pyinfra around it."""
    from declare.invocation import for_command
    from operations.survey import request_for

    fleet = for_command(str(lab.folder / "fleet")).fleet
    placement = fleet.placement(name)
    script = probe_script(request_for(placement, "key", deep))
    facts = parse_probe(lab.ssh(name, "bash -s", input=script.text).stdout, script)
    view = NodeView(placement=placement, facts=facts, rollout=fleet.rollout)
    plans = tuple(decide(placement, service, facts) for service in placement.services)
    return list(evaluate(FleetView(views=(view,), plans=plans), fleet.waivers))


@pytest.mark.parametrize("name", ["a1", "h1", "l1"])
@pytest.mark.parametrize("deep", [False, True], ids=["rollout", "deep"])
def test_a_healthy_host_passes_every_gate_without_a_warning_or_a_waiver(lab: Lab, name: str, deep: bool) -> None:
    verdicts = judged(lab, name, deep)
    assert [str(verdict) for verdict in verdicts if verdict.status != "pass"] == []


@pytest.mark.parametrize(
    ("name", "fault", "gate", "status", "text"),
    [
        ("a1", "gpu-lost:3", "gpu-count", "fail", "GPU 3 is lost"),
        ("a1", "gpu-reset:2", "gpu-healthy", "fail", "GPU 2"),
        ("a1", "gpu-reset:2", "gpu-recovery", "fail", "Reset on GPU 2"),
        ("h1", "ecc:1", "gpu-healthy", "fail", "ecc.errors.uncorrected.volatile.total: 3"),
        ("h1", "remap-pending:1", "row-remap", "fail", "Yes on GPU 1"),
        ("h1", "mig:0", "mig", "fail", "Enabled on GPU 0"),
        ("h1", "persistence-off", "persistence", "warn", "Disabled on GPU 7"),
        ("h1", "power-capped:2", "power-limit", "warn", "found 250 W on GPU 2"),
        ("a1", "throttled:2", "clocks", "fail", "HW thermal slowdown on GPU 2"),
        ("a1", "pcie-narrow:5", "pcie-link", "warn", "found 8 on GPU 5"),
        ("l1", "foreign:2", "gpu-free", "fail", "29996 MiB by python3, pid 1, init.scope"),
        ("a1", "xid:3-119", "xid", "fail", "Xid 119 of GPU 3"),
        ("a1", "xid:3-31", "xid", "warn", "Xid 31 of GPU 3"),
        ("a1", "nvlink-missing:0-1", "nvlink-islands", "fail", "found {2,3} {4,5} {6,7}"),
        ("a1", "nvlink-down:3", "nvlink-width", "fail", "between GPU 2 and 3, found 3"),
        ("h1", "nvlink-down:3", "nvlink-up", "fail", "NVLink ports of GPU 3 up, found 0 inactive"),
        ("h1", "fabric-down", "fabric", "fail", "In Progress, N/A on GPU 0"),
        ("l1", "driver-mismatch", "driver", "fail", "the module that is loaded and the library differ"),
        ("l1", "driver-gone", "driver", "fail", "no driver is loaded"),
    ],
)
def test_a_fault_is_named_by_its_gate(lab: Lab, name: str, fault: str, gate: str, status: str, text: str) -> None:
    lab.set(name, faults=[fault])
    told = [verdict for verdict in judged(lab, name) if verdict.gate == gate]
    assert text in "\n".join(str(verdict) for verdict in told if verdict.status == status), [*map(str, told)]


def test_the_verb_asks_every_gate_and_changes_nothing(lab: Lab, site: RolloutSite) -> None:
    site.write(llm=site.service())
    before = site.marks()
    ran = site.pyinfra("gates.py", "--data", f"report={site.root / 'gates.json'}")
    assert ran.code == 0, ran.out
    told = json.loads((site.root / "gates.json").read_text())
    assert told["passed"] and told["counts"]["fail"] == 0 and told["not_asked"] == []
    assert {verdict["node"] for verdict in told["verdicts"]} == {"a1", "h1", "l1", "all nodes"}
    lab.set("a1", faults=["nvlink-down:3"])
    refused = site.pyinfra("gates.py")
    assert refused.code == 1, refused.out
    assert "fail nvlink-up: want all NVLink ports of GPU 3 up, found 0 inactive on a1" in refused.plain
    assert "not asked" not in refused.plain
    assert site.marks() == before


def test_the_verb_tells_machines_on_stdout_and_people_on_stderr(site: RolloutSite) -> None:
    site.write(llm=site.service())
    ran = site.pyinfra("gates.py", "--json", "--limit", "l1")
    assert ran.code == 0, ran.out
    start = ran.out.index("{\n")
    document, _ = json.JSONDecoder().raw_decode(ran.out[start:])
    assert document["verb"] == "gates" and {v["gate"] for v in document["verdicts"]} >= {"xid", "nvlink-up"}


def test_a_rollout_names_the_gates_that_it_leaves_out(site: RolloutSite) -> None:
    site.write(llm=site.service())
    ran = site.deploy("--dry")
    assert ran.code == 0, ran.out
    assert "not asked: nvlink-up" in ran.plain and "gates.py asks them" in ran.plain
