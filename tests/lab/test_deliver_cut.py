"""Deliveries that are cut: a peer loses its network, the controller dies, a disk fills. The next run goes on."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
from delivery_site import MIB, TARGET, DeliverySite
from rollout_site import RolloutSite

from fleet.releases.places import NODE_SCRIPT

pytestmark = pytest.mark.lab
SIZES = "find /srv/models/.delivered.*.delivery -type f -printf '%s ' 2>/dev/null"
COUNT = f"n=0; for s in $({SIZES}); do n=$((n + s)); done; echo $n"


LIMIT_MIB_S, PARALLEL, LEASE_S = 2, 2, 10


@pytest.fixture(scope="module")
def made(shared_site: RolloutSite) -> DeliverySite:
    return DeliverySite(shared_site, shards=6, mib=3)


@pytest.fixture
def fleet(made: DeliverySite) -> Iterator[DeliverySite]:
    """Slow on purpose: what is cut must be on its way."""
    slow = {"rate_mib_s": LIMIT_MIB_S, "serves": 2, "parallel": PARALLEL, "lease_s": LEASE_S}
    made.declare(folder=str(made.source), delivery=slow)
    made.tidy()
    yield made
    for node in made.site.nodes:
        made.site.lab.join(node)
        made.site.lab.resize_disk(node, "2G")
    made.tidy()


def staged(fleet: DeliverySite, node: str) -> int:
    return int(fleet.site.on(node, COUNT))


def until(what: Callable[[], bool], limit_s: float = 40) -> None:
    deadline = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.3)


def whole(fleet: DeliverySite) -> int:
    """Bytes of the checkpoint."""
    return sum(path.stat().st_size for path in fleet.source.rglob("*") if path.is_file())


def test_a_peer_without_network_and_a_full_disk_are_told_and_gone_on_with(fleet: DeliverySite) -> None:
    """h1 loses its network and the disk of l1 fills while all three give to each other; a1 gets everything."""
    report = fleet.site.root / "cut.json"
    running = fleet.site.start("deliver.py", "-y", "--data", f"report={report}")
    until(lambda: staged(fleet, "l1") > MIB)
    used = int(fleet.site.on("l1", "df --block-size=1M --output=used / | tail -n 1"))
    fleet.site.lab.resize_disk("l1", f"{used + 2}M")
    until(lambda: staged(fleet, "h1") > 7 * MIB)  # some of its six shards of 3 MiB are verified
    fleet.site.lab.cut("h1")
    out, _ = running.communicate(timeout=200)
    plain = re.sub(r"\s+", " ", out)
    assert running.returncode == 1, out
    assert re.search(r"a1 m delivered", plain), out
    assert fleet.site.on("a1", f"ls {TARGET}/config.json")
    assert re.search(r"h1 m failed", plain), out
    assert re.search(r"l1 m failed .*(disk is full|No space left)", plain), out
    assert re.search(r"\[a1\] deliver: [0-9.]+ of [0-9.]+ GiB \(\d+ %\), \d+ MiB/s, [0-9.]+ min left", out), out
    row = next(row for row in json.loads(report.read_text())["results"] if row["node"] == "a1")
    assert row["seconds"] > 0.8 * whole(fleet) / (LIMIT_MIB_S * PARALLEL * MIB), "faster than its limit"
    fleet.site.lab.join("h1")
    had = staged(fleet, "h1")
    assert had > 7 * MIB
    assert not fleet.site.on("h1", f"ls {TARGET} 2>/dev/null || true")
    fleet.site.lab.resize_disk("l1", "2G")
    fleet.declare(folder=str(fleet.source), delivery={"lease_s": LEASE_S})
    code, again = fleet.report()
    assert code == 0, again
    rows = {row["node"]: row for row in again["results"]}
    assert [rows[node]["status"] for node in ("a1", "h1", "l1")] == ["unchanged", "delivered", "delivered"]
    assert rows["h1"]["bytes"] < whole(fleet) and rows["l1"]["bytes"] <= whole(fleet)


def test_after_the_controller_died_nothing_listens_and_the_next_run_goes_on(fleet: DeliverySite) -> None:
    running = fleet.site.start("deliver.py", "-y")
    until(lambda: all(staged(fleet, node) > 2 * MIB for node in fleet.site.nodes))
    assert fleet.site.on("a1", "ss -Hltn sport = 8730")
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    until(lambda: not fleet.site.on("a1", "ss -Hltn sport = 8730; pgrep -x rsync || true"))
    fleet.declare(folder=str(fleet.source))
    code, report = fleet.report()
    assert code == 0, report
    assert all(row["status"] == "delivered" and row["bytes"] <= whole(fleet) for row in report["results"])


def test_a_node_that_does_not_answer_is_left_out_where_that_is_the_policy_and_the_others_are_served(
    fleet: DeliverySite,
) -> None:
    fleet.site.rollout = {"on_unreachable": "host"}
    fleet.declare(folder=str(fleet.source))
    fleet.site.lab.cut("l1")
    rolled = fleet.site.deploy("--data", "deliver=true", XDG_CACHE_HOME=str(fleet.site.root))
    for node in ("a1", "h1"):
        fleet.site.on(node, f"ls {TARGET}/config.json; systemctl is-active vllm-m")
        fleet.site.on(node, f"{NODE_SCRIPT} drop m; rm -r {TARGET}")
    ran = fleet.run()
    fleet.site.rollout = {}
    for one in (rolled, ran):
        assert one.code == 1 and "Traceback" not in one.out, one.out
        assert "stopped: l1: no SSH connection" in one.plain
        assert re.search(r"a1 m delivered .* h1 m delivered ", one.plain), one.out


def test_the_only_source_that_is_cut_off_is_named_with_what_happened(fleet: DeliverySite) -> None:
    fleet.declare(folder=str(fleet.source))
    assert fleet.run("--limit", "h1").code == 0
    slow = {"rate_mib_s": LIMIT_MIB_S, "parallel": PARALLEL, "lease_s": LEASE_S}
    fleet.declare(peer="h1", delivery=slow)
    running = fleet.site.start("deliver.py", "-y", "--limit", "h1", "--limit", "l1")
    until(lambda: staged(fleet, "l1") > 3 * MIB)
    fleet.site.lab.cut("h1")
    out, _ = running.communicate(timeout=200)
    assert running.returncode == 1, out
    plain = re.sub(r"\s+", " ", out)
    assert re.search(r"stopped: l1: m: nobody can give \S+ of m: h1: (no byte arrived for|rsync ended with) ", plain), (
        out
    )
    assert not fleet.site.on("l1", f"ls {TARGET} 2>/dev/null || true")


def test_a_byte_that_changed_in_what_a_cut_run_left_is_named_and_never_placed(fleet: DeliverySite) -> None:
    """In a verified file on h1, without a change of its size, and in the half of a file that came to each."""
    running = fleet.site.start("deliver.py", "-y")
    until(lambda: staged(fleet, "h1") > 8 * MIB)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    gathered = "/srv/models/.delivered.*.delivery"
    until(lambda: not fleet.site.on("h1", "pgrep -x rsync || true"))
    spoil = "dd if=/dev/zero of=$f bs=1 count=64 conv=notrunc status=none"
    fleet.site.on("h1", f"f=$(ls {gathered}/files/model-* | head -n 1); {spoil}")
    for node in fleet.site.nodes:
        fleet.site.on(node, f"for f in $(find {gathered}/parts -name 'model-*' -size +1k); do {spoil}; done")
    fleet.declare(folder=str(fleet.source), delivery={"lease_s": LEASE_S})
    ran = fleet.run("-v")
    assert ran.code == 0, ran.out
    assert re.search(
        r"\[h1\] m: \S+: model-\d\.safetensors: changed: want sha256 \w+, found \w+; it is fetched", ran.plain
    )
    shards = " ".join(sorted(path.name for path in fleet.source.glob("model-*")))
    want = subprocess.run(f"cd {fleet.source} && sha256sum {shards}", shell=True, capture_output=True, text=True).stdout
    for node in fleet.site.nodes:
        assert fleet.site.on(node, f"cd {TARGET} && sha256sum {shards}") == want.strip()
        assert fleet.site.on(node, "ls -A /srv/models | grep '^[.]' || true") == ""


def test_a_file_that_changes_after_it_was_compared_is_not_placed(fleet: DeliverySite) -> None:
    running = fleet.site.start("deliver.py", "-y")
    until(lambda: staged(fleet, "h1") > 8 * MIB)
    fleet.site.on("h1", "f=$(ls /srv/models/.delivered.*/files/model-* | head -n 1); printf X | dd of=$f conv=notrunc")
    out, _ = running.communicate(timeout=100)
    assert running.returncode == 1, out
    assert "was changed after it was compared; run again, and it is read again" in " ".join(out.split())
    assert not fleet.site.on("h1", f"ls {TARGET} 2>/dev/null || true")
    assert fleet.site.on("a1", f"ls {TARGET}/config.json")


def test_a_second_delivery_says_who_holds_a_node_and_waits_for_the_lease(fleet: DeliverySite) -> None:
    holder = "someone@elsewhere pid 7"
    lease = f'echo "other $(($(date +%s) + 12)) {holder}" >/var/lib/vllm-fleet/.delivery/lease'
    fleet.site.on("h1", f"mkdir -p /var/lib/vllm-fleet/.delivery; {lease}")
    fleet.declare(folder=str(fleet.source), delivery={"lease_s": LEASE_S})
    ran = fleet.run()
    assert ran.code == 0, ran.out
    assert f"waits h1: another delivery runs there: {holder}" in ran.plain


def test_of_two_deliveries_the_second_waits_and_finds_what_the_first_brought(fleet: DeliverySite) -> None:
    first = fleet.site.start("deliver.py", "-y")
    until(lambda: all(staged(fleet, node) > 3 * MIB for node in fleet.site.nodes))
    code, report = fleet.report()
    out, _ = first.communicate(timeout=100)
    assert first.returncode == 0, out
    assert code == 0, report
    assert {(row["status"], row["bytes"]) for row in report["results"]} == {("unchanged", 0)}
    assert fleet.site.on("a1", "ls -A /srv/models | grep '^[.]' || true") == ""


def test_a_delivery_that_is_interrupted_does_not_say_that_nothing_was_changed(fleet: DeliverySite) -> None:
    running = fleet.site.start("deliver.py", "-y")
    until(lambda: all(staged(fleet, node) > MIB for node in fleet.site.nodes))
    os.killpg(running.pid, signal.SIGINT)
    out, _ = running.communicate(timeout=100)
    assert running.returncode == 1, out
    assert "SIGINT: left while bytes moved; what arrived is kept" in out
    assert "nothing was changed" not in out and "Traceback" not in out


def test_a_delivery_that_goes_on_elsewhere_keeps_its_node_and_is_named(fleet: DeliverySite) -> None:
    holder = "someone@elsewhere pid 7"
    lease = f'echo "other $(($(date +%s) + 900)) {holder}" >/var/lib/vllm-fleet/.delivery/lease'
    fleet.site.on("h1", f"mkdir -p /var/lib/vllm-fleet/.delivery; {lease}")
    fleet.declare(folder=str(fleet.source), delivery={"lease_s": LEASE_S})
    ran = fleet.run()
    assert ran.code == 1
    assert f"another delivery runs here: {holder}; wait for its end" in ran.plain
    assert fleet.site.on("a1", f"ls {TARGET}/config.json")
