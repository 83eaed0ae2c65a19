"""Each fault that a lab can show is set on a running host, and the gate of that subject names it."""

import json
import time
from collections.abc import Iterator

import pytest
from rollout_site import RolloutSite

from facts.gather import clock_ahead
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


def judged(lab: Lab, name: str, deep: bool = True, names: tuple[str, ...] = ()) -> list[Verdict]:
    """What the gates say of a host as the lab declares it: one probe, no pyinfra around it."""
    from declare.invocation import for_command
    from operations.survey import request_for

    fleet = for_command(str(lab.folder / "fleet")).fleet
    placement = fleet.placement(name).model_copy(update={"names": names})
    script = probe_script(request_for(placement, "key", deep))
    asked = time.time()
    answer = lab.ssh(name, "bash -s", input=script.text).stdout
    facts = parse_probe(answer, script)
    facts = facts.model_copy(update={"clock_ahead_s": clock_ahead(facts.now, asked, time.time())})
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
        ("a1", "p2p-off", "p2p", "fail", "peer access between GPU 0 and 1, found CNS"),
        ("a1", "cdi-missing", "cdi", "fail", "no specification of nvidia.com/gpu"),
        ("a1", "cdi-without:3", "cdi", "fail", "found none of GPU 3"),
        ("a1", "cdi-stale", "cdi-fresh", "fail", "found 570.86.15 in /etc/cdi/nvidia.yaml"),
        ("a1", "memory:4", "host-memory", "warn", "want 8 GiB free for 8 ranks, found 4.0 GiB"),
        ("l1", "driver-mismatch", "driver", "fail", "the module that is loaded and the library differ"),
        ("l1", "driver-gone", "driver", "fail", "no driver is loaded"),
    ],
)
def test_a_fault_is_named_by_its_gate(lab: Lab, name: str, fault: str, gate: str, status: str, text: str) -> None:
    lab.set(name, faults=[fault])
    told = [verdict for verdict in judged(lab, name) if verdict.gate == gate]
    assert text in "\n".join(str(verdict) for verdict in told if verdict.status == status), [*map(str, told)]


_AGAIN = "rm /usr/local/bin/nvidia-ctk"


def _toolkit(version: str) -> str:
    """NVIDIA's toolkit as far as its version goes."""
    program = f"#!/bin/sh\necho NVIDIA Container Toolkit CLI version {version}\n"
    return f"printf '{program}' >/usr/local/bin/nvidia-ctk; chmod 755 /usr/local/bin/nvidia-ctk"


@pytest.mark.parametrize(
    ("action", "undo", "gate", "status", "text"),
    [
        ("umount /dev/nvidia-uvm", "mount --bind /dev/null /dev/nvidia-uvm", "device-nodes", "fail", "nvidia-uvm"),
        ("umount /dev/nvidia3", "mount --bind /dev/null /dev/nvidia3", "device-nodes", "fail", "1 of the GPUs'"),
        ("touch /run/reboot-required", "rm /run/reboot-required", "reboot-pending", "warn", "want no reboot pending"),
        (
            "mv /run/systemd/container /run/systemd/was",
            "mv /run/systemd/was /run/systemd/container",
            "clock-set",
            "warn",
            "no daemon that does",
        ),
        (
            "cp /etc/hosts /run/hosts; echo 127.0.0.1 localhost > /etc/hosts; sed -i.old s/^hosts:.*/hosts:files/ "
            "/etc/nsswitch.conf",
            "cp /run/hosts /etc/hosts; mv /etc/nsswitch.conf.old /etc/nsswitch.conf",
            "own-name",
            "warn",
            "a1 resolves to nothing",
        ),
        (
            "rm -f /etc/systemd/system/apt-daily-upgrade.timer; mkdir -p /etc/systemd/system/timers.target.wants; "
            "ln -s /lib/systemd/system/apt-daily-upgrade.timer /etc/systemd/system/timers.target.wants/; "
            "echo 'APT::Periodic::Unattended-Upgrade \"1\";' > /etc/apt/apt.conf.d/20auto-upgrades",
            "ln -s /dev/null /etc/systemd/system/apt-daily-upgrade.timer; rm /etc/apt/apt.conf.d/20auto-upgrades",
            "driver-updates",
            "warn",
            "apt-daily-upgrade.timer may replace it",
        ),
        (
            """echo '{"weight_map": {"model.norm.weight": "model-00001-of-00002.safetensors"}}' """
            "> /srv/models/glm-dsa-78/model.safetensors.index.json",
            "rm /srv/models/glm-dsa-78/model.safetensors.index.json",
            "checkpoint",
            "fail",
            "model-00001-of-00002.safetensors is missing",
        ),
        ("fallocate -l 1700M /var/tmp/full", "rm /var/tmp/full", "disk-room", "fail", "want 0.5 GiB free"),
        (
            'sed -i.was \'s/"num_hidden_layers": 78/"num_hidden_layers": 92/\' /srv/models/glm-dsa-78/config.json',
            "mv /srv/models/glm-dsa-78/config.json.was /srv/models/glm-dsa-78/config.json",
            "config-tensors",
            "fail",
            "config.json says 92 layers, tensors name 79 of them",
        ),
        (
            _toolkit("1.11.0"),
            _AGAIN,
            "toolkit-version",
            "fail",
            "1.11.0",
        ),
        (
            _toolkit("1.17.3"),
            _AGAIN,
            "toolkit-version",
            "warn",
            "1.17.8",
        ),
        (
            "mv /usr/bin/podman /usr/bin/podman.was; printf '#!/bin/sh\necho podman version 3.0.1\n' >/usr/bin/podman; "
            "chmod 755 /usr/bin/podman",
            "mv /usr/bin/podman.was /usr/bin/podman",
            "runtime-version",
            "fail",
            "want podman 4.1 or later, found 3.0.1",
        ),
    ],
    ids=[
        *("uvm", "gpu-node", "reboot", "clock", "name", "updates", "shard", "disk"),
        *("config", "toolkit", "unsafe-toolkit", "podman"),
    ],
)
def test_what_is_done_to_a_host_is_named_by_its_gate(
    lab: Lab, action: str, undo: str, gate: str, status: str, text: str
) -> None:
    assert lab.ssh("a1", action).returncode == 0
    try:
        told = [verdict for verdict in judged(lab, "a1") if verdict.gate == gate]
    finally:
        assert lab.ssh("a1", undo).returncode == 0
    assert text in "\n".join(str(verdict) for verdict in told if verdict.status == status), [*map(str, told)]


def test_a_name_that_does_not_resolve_is_told_by_the_node_that_is_sent_to_it(lab: Lab) -> None:
    wanted = ("localhost", "no-such-mirror.invalid")
    (told,) = [verdict for verdict in judged(lab, "a1", deep=False, names=wanted) if verdict.gate == "peer-names"]
    assert (told.status, told.want) == ("fail", "an address of no-such-mirror.invalid"), told


def test_an_undeclared_service_that_holds_the_gpus_of_another_is_named(lab: Lab, site: RolloutSite) -> None:
    site.write(old=site.service())
    rolled = site.deploy("--limit", "l1")
    assert rolled.code == 0, rolled.out
    site.write(new=site.service(port=8001))
    ran = site.pyinfra("gates.py", "--limit", "l1")
    assert ran.code == 1
    assert "fail undeclared-service: want only declared services, found vllm-old.service is active on GPU 0 on l1" in (
        ran.plain
    )
    pruned = site.pyinfra("gates.py", "--limit", "l1", "--data", "prune=true")
    assert pruned.code == 0, pruned.out


def test_a_mount_without_its_source_is_named(site: RolloutSite) -> None:
    site.write(llm=site.service(mounts=[{"source": "/srv/not-there", "target": "/cache"}]))
    ran = site.pyinfra("gates.py", "--limit", "l1")
    assert ran.code == 1
    assert "fail mounts: want /srv/not-there on the node, found no such file or folder on l1/llm" in ran.plain


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
