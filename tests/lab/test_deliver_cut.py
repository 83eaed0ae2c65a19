"""Deliveries that are cut: a peer loses its network, the controller dies, a disk fills. The next run goes on."""

import os
import re
import signal
import time
from collections.abc import Callable

import pytest
from delivery_site import MIB, TARGET, DeliverySite
from rollout_site import RolloutSite

pytestmark = pytest.mark.lab
SIZES = "find /srv/models/.delivered.*.delivery -type f -printf '%s ' 2>/dev/null"
COUNT = f"n=0; for s in $({SIZES}); do n=$((n + s)); done; echo $n"


@pytest.fixture
def fleet(site: RolloutSite) -> DeliverySite:
    made = DeliverySite(site, shards=6, mib=6)
    made.declare(folder=str(made.source), delivery={"rate_mib_s": 2, "serves": 2, "parallel": 2})
    return made


@pytest.fixture(autouse=True)
def tidy(fleet: DeliverySite) -> object:
    yield
    for node in fleet.site.nodes:
        fleet.site.lab.join(node)
        fleet.site.on(
            node, "systemctl stop vllm-fleet-delivery 2>/dev/null; rm -rf /srv/models/.deliv* /srv/models/deliv*"
        )
        fleet.site.on(node, "rm -rf /var/lib/vllm-fleet/.delivery /srv/ballast")


def staged(fleet: DeliverySite, node: str) -> int:
    return int(fleet.site.on(node, COUNT))


def until(what: Callable[[], bool], limit_s: float = 40) -> None:
    deadline = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.3)


def test_a_peer_that_loses_its_network_is_planned_around_and_gone_on_with(fleet: DeliverySite) -> None:
    running = fleet.site.start("deliver.py", "-y")
    until(lambda: staged(fleet, "h1") > 16 * MIB)  # some of its six shards of 6 MiB are verified
    fleet.site.lab.cut("h1")
    out, _ = running.communicate(timeout=200)
    plain = re.sub(r"\s+", " ", out)
    assert running.returncode == 1, out
    for node in ("a1", "l1"):
        assert re.search(rf"{node} m delivered", plain), out
        assert fleet.site.on(node, f"ls {TARGET}/config.json")
    assert re.search(r"h1 m failed", plain), out
    fleet.site.lab.join("h1")
    had = staged(fleet, "h1")
    assert had > 16 * MIB
    assert not fleet.site.on("h1", f"ls {TARGET} 2>/dev/null || true")
    fleet.declare(folder=str(fleet.source))
    code, report = fleet.report()
    assert code == 0, report
    row = {row["node"]: row for row in report["results"]}["h1"]
    assert row["status"] == "delivered"
    assert row["bytes"] < sum(path.stat().st_size for path in fleet.source.rglob("*") if path.is_file())


def test_after_the_controller_died_nothing_listens_and_the_next_run_goes_on(fleet: DeliverySite) -> None:
    running = fleet.site.start("deliver.py", "-y")
    until(lambda: all(staged(fleet, node) > 3 * MIB for node in fleet.site.nodes))
    assert fleet.site.on("a1", "ss -Hltn sport = 8730")
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    until(lambda: not fleet.site.on("a1", "ss -Hltn sport = 8730; pgrep -x rsync || true"), limit_s=100)
    fleet.declare(folder=str(fleet.source))
    code, report = fleet.report()
    assert code == 0, report
    whole = sum(path.stat().st_size for path in fleet.source.rglob("*") if path.is_file())
    assert all(row["status"] == "delivered" and row["bytes"] <= whole for row in report["results"])


def test_a_disk_that_fills_meanwhile_fails_its_node_alone_with_its_name(fleet: DeliverySite) -> None:
    running = fleet.site.start("deliver.py", "-y")
    until(lambda: staged(fleet, "l1") > 3 * MIB)
    fleet.site.on("l1", "mkdir -p /srv/ballast; head -c 4G /dev/zero >/srv/ballast/x 2>/dev/null || true")
    out, _ = running.communicate(timeout=200)
    plain = re.sub(r"\s+", " ", out)
    assert running.returncode == 1
    assert re.search(r"l1 m failed .*(disk is full|No space left)", plain), out
    assert re.search(r"a1 m delivered", plain)
    assert re.search(r"h1 m delivered", plain)


def test_a_second_delivery_waits_for_the_lease_and_says_who_holds_it(fleet: DeliverySite) -> None:
    holder = "someone@elsewhere pid 7"
    lease = f'echo "other $(($(date +%s) + 3)) {holder}" >/var/lib/vllm-fleet/.delivery/lease'
    for node in fleet.site.nodes:
        fleet.site.on(node, f"mkdir -p /var/lib/vllm-fleet/.delivery; {lease}")
    fleet.declare(folder=str(fleet.source))
    began = time.monotonic()
    code, report = fleet.report()
    assert code == 0, report
    assert time.monotonic() - began > 2
