"""A checkpoint reaches every host from a folder of the controller, once; what is there already is not moved again."""

import hashlib
import json
import re
import subprocess
from pathlib import Path

import pytest
from delivery_site import TARGET, DeliverySite, make_checkpoint
from rollout_site import RolloutSite

from fleet.releases.places import NODE_SCRIPT

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def fleet(shared_site: RolloutSite) -> DeliverySite:
    made = DeliverySite(shared_site)
    made.tidy()
    made.declare(folder=str(made.source))
    return made


def test_a_dry_run_shows_what_would_move_and_moves_nothing(fleet: DeliverySite) -> None:
    before = fleet.listing()
    ran = fleet.run("--dry")
    assert ran.code == 0, ran.out
    assert "nothing was moved" in ran.plain
    assert "3 nodes, each gives to 2 more: 2 rounds instead of 3" in ran.plain
    assert fleet.listing() == before


def test_a_rollout_is_refused_while_the_checkpoint_is_not_there(fleet: DeliverySite) -> None:
    ran = fleet.site.deploy("--dry")
    assert ran.code == 1
    assert "checkpoint-verified: want /srv/models/delivered with the content of sha256:" in ran.plain


def test_every_host_has_every_byte_and_nothing_listens_afterwards(fleet: DeliverySite) -> None:
    code, report = fleet.report()
    assert code == 0, report
    assert [(row["node"], row["status"]) for row in report["results"]] == [
        (node, "delivered") for node in fleet.site.nodes
    ]
    sums = "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(fleet.source)}\n"
        for path in sorted(fleet.source.rglob("*"))
        if path.is_file()
    )
    for node in fleet.site.nodes:
        done = fleet.site.lab.ssh(node, f"cd {TARGET} && sha256sum --quiet -c && find . -type f | wc -l", input=sums)
        assert (done.returncode, done.stdout.strip()) == (0, str(sums.count("\n"))), done.stderr
        left = "ls -A /run/vllm-fleet-delivery /var/lib/vllm-fleet/.delivery/lease 2>/dev/null; ss -Hltn sport = 8730"
        assert fleet.site.on(node, f"{left}; ls -A /srv/models | grep '^[.]' || true") == ""
    givers = {source for row in report["results"] for source in row["sources"]}
    assert givers & set(fleet.site.nodes), "no host gave to another"


def test_a_second_run_moves_and_touches_nothing(fleet: DeliverySite) -> None:
    before = fleet.listing()
    ran = fleet.run()
    assert ran.code == 0, ran.out
    assert "Nothing to deliver" in ran.plain
    assert fleet.listing() == before


def test_after_the_delivery_the_gate_passes(fleet: DeliverySite) -> None:
    ran = fleet.site.deploy("--dry")
    assert ran.code == 0, ran.out


def test_a_changed_byte_is_named_and_only_its_file_comes_again(fleet: DeliverySite) -> None:
    fleet.site.on("h1", f"printf X | dd of={TARGET}/model-1.safetensors bs=1 seek=77 conv=notrunc status=none")
    assert "checkpoint-verified" in fleet.site.deploy("--dry").plain
    code, report = fleet.report()
    assert code == 0, report
    rows = {row["node"]: row for row in report["results"]}
    assert [rows[node]["status"] for node in ("a1", "h1", "l1")] == ["unchanged", "delivered", "unchanged"]
    assert rows["h1"]["bytes"] == (fleet.source / "model-1.safetensors").stat().st_size
    digest = hashlib.sha256((fleet.source / "model-1.safetensors").read_bytes()).hexdigest()
    assert fleet.site.on("h1", f"sha256sum <{TARGET}/model-1.safetensors")[:64] == digest


def test_what_was_replaced_stays_until_it_is_to_be_cleaned(fleet: DeliverySite) -> None:
    """So does what a cut run gathered of a content that came by another way in the end."""
    assert ".delivered.replaced." in fleet.site.on("h1", "ls -A /srv/models")
    digest = hashlib.sha256((fleet.site.root / f"{fleet.manifests}.manifest").read_bytes()).hexdigest()[:12]
    gathered = f"/srv/models/.delivered.{digest}.delivery"
    fleet.site.on("a1", f"mkdir -p {gathered}/files {gathered}/parts; echo x >{gathered}/files/config.json")
    dry = fleet.run("--data", "clean=true", "--dry")
    assert "clean h1:/srv/models/.delivered.replaced." in dry.plain
    assert f"clean a1:{gathered}" in dry.plain
    assert ".delivered.replaced." in fleet.site.on("h1", "ls -A /srv/models")
    ran = fleet.run("--data", "clean=true")
    assert ran.code == 0, ran.out
    assert ".delivered.replaced." not in fleet.site.on("h1", "ls -A /srv/models")
    assert fleet.site.on("a1", f"ls -d {gathered} 2>/dev/null || true") == ""


def test_a_byte_that_changed_without_a_trace_is_found_by_reading_all_again(fleet: DeliverySite) -> None:
    """As a disk does that gives back something else: sizes and times are as they were."""
    record = "/var/lib/vllm-fleet/.delivery/*.verified"
    fleet.site.on(
        "l1",
        f"printf Y | dd of={TARGET}/model-0.safetensors bs=1 seek=99 conv=notrunc status=none; for f in {record}; do "
        f"if grep -q model-0 $f; then d=$(head -n1 $f); {{ echo $d; find {TARGET}/ -mindepth 1 ! -type d "
        "-printf '%y\\t%s\\t%T@\\t%C@\\t%P\\n' | LC_ALL=C sort; } >$f.new; mv $f.new $f; fi; done",
    )
    assert "Nothing to deliver" in fleet.run().plain
    ran = fleet.run("--data", "rehash=true", "-v")
    assert ran.code == 0, ran.out
    assert "model-0.safetensors: changed: want sha256" in ran.plain
    assert "Nothing to deliver" in fleet.run().plain


def test_a_folder_that_came_by_another_way_is_compared_and_taken_as_it_is(fleet: DeliverySite) -> None:
    fleet.site.on("a1", "rm -f /var/lib/vllm-fleet/.delivery/*.verified")
    inode = fleet.site.on("a1", f"stat -c %i {TARGET}/model-0.safetensors")
    code, report = fleet.report()
    assert code == 0, report
    assert {row["node"]: (row["status"], row["bytes"]) for row in report["results"]}["a1"] == ("verified", 0)
    assert fleet.site.on("a1", f"stat -c %i {TARGET}/model-0.safetensors") == inode


def test_a_file_that_the_manifest_does_not_name_does_not_stay_in_the_folder(fleet: DeliverySite) -> None:
    fleet.site.on("a1", f"echo stray >{TARGET}/stray.safetensors")
    code, report = fleet.report()
    assert code == 0, report
    assert "stray" not in fleet.site.on("a1", f"ls {TARGET}")
    fleet.run("--data", "clean=true")


def test_a_running_engine_keeps_its_folder_whatever_is_declared(fleet: DeliverySite, tmp_path: Path) -> None:
    ran = fleet.site.deploy()
    assert ran.code == 0, ran.out
    marks = fleet.site.marks()
    other = make_checkpoint(tmp_path / "other", seed=9)
    fleet.declare(folder=str(other), source=other)
    refused = fleet.run()
    assert refused.code == 1
    assert "is read by the running engine of m and is not as its manifest says" in refused.plain
    assert fleet.site.marks() == marks
    fleet.declare(folder=str(fleet.source))


def test_a_running_release_own_folder_is_no_source(fleet: DeliverySite) -> None:
    """A peer gives its verified checkpoint; a folder that is named by hand must not be one that an engine reads."""
    service = fleet.service(peer="a1", folder=TARGET)
    service["model"] = "/srv/models/copy"
    fleet.site.write(m=fleet.service(folder=str(fleet.source)), other=service | {"port": 8001})
    refused = fleet.run()
    assert refused.code == 1
    assert "want a source that no engine reads, found /srv/models/delivered on a1" in refused.plain
    assert "copy" not in fleet.site.on("h1", "ls -A /srv/models")
    fleet.declare(folder=str(fleet.source))


def test_a_new_host_gets_it_from_a_peer_that_has_it(fleet: DeliverySite) -> None:
    fleet.site.on("l1", f"systemctl stop vllm-m; rm -rf {TARGET} /var/lib/vllm-fleet/.delivery/*")
    fleet.declare(peer="h1")
    code, report = fleet.report()
    assert code == 0, report
    row = {row["node"]: row for row in report["results"]}["l1"]
    assert row["status"] == "delivered"
    assert set(row["sources"]) <= {"a1", "h1"}


def test_a_rollout_delivers_first_where_it_is_asked_to(fleet: DeliverySite) -> None:
    fleet.site.on("l1", f"systemctl stop vllm-m; rm -rf {TARGET} /var/lib/vllm-fleet/.delivery/*")
    assert "checkpoint-verified" in fleet.site.deploy().plain
    ran = fleet.site.deploy("--data", "deliver=true", XDG_CACHE_HOME=str(fleet.site.root))
    assert ran.code == 0, ran.out
    assert (
        fleet.site.on("l1", f"ls {TARGET}/config.json; systemctl is-active vllm-m") == f"{TARGET}/config.json\nactive"
    )


def test_what_is_no_longer_declared_goes_only_where_nothing_needs_it(fleet: DeliverySite, tmp_path: Path) -> None:
    """On a1 a release needs the old folder, on h1 somebody's own process reads it, on l1 nothing does."""
    site, other = fleet.site, make_checkpoint(tmp_path / "other", seed=7, shards=1, mib=1)
    for node in ("h1", "l1"):
        site.on(node, f"{NODE_SCRIPT} drop m")
    fleet.site.on(
        "h1", f"setsid tail -f {TARGET}/model-0.safetensors >/dev/null 2>&1 </dev/null & echo $! >/run/reader"
    )
    site.write(m=fleet.service(source=other, folder=str(other)) | {"model": "/srv/models/next"})
    assert fleet.run().code == 0
    assert TARGET.rpartition("/")[2] in site.on("l1", "ls /srv/models")
    told = fleet.run("--dry", "--diff", "--data", "clean=true")
    assert told.code == 0, told.out
    assert f"clean l1:{TARGET} 0.02 GiB" in told.plain
    assert f"stays a1:{TARGET}: the release m/" in told.plain
    assert re.search(rf"stays h1:{TARGET}: process \d+ \(tail\) uses it", told.plain)
    assert TARGET.rpartition("/")[2] in site.on("l1", "ls /srv/models")
    code, report = fleet.report("--data", "clean=true")
    assert code == 0, report
    assert f"l1:{TARGET}" in report["cleaned"]
    there = {node: site.on(node, f"ls -d {TARGET} /srv/models/next 2>/dev/null || true") for node in site.nodes}
    both = f"{TARGET}\n/srv/models/next"
    assert there == {"a1": both, "h1": both, "l1": "/srv/models/next"}
    assert site.on("l1", "cat /var/lib/vllm-fleet/.delivery/*.path") == "/srv/models/next"
    site.on("h1", f"cp {TARGET}/config.json /run/kept; echo >>{TARGET}/config.json")
    fleet.declare(folder=str(fleet.source))
    ran = fleet.run("--limit", "h1")
    assert ran.code == 1
    assert re.search(rf"{TARGET} is used by process \d+ \(tail\); nothing was replaced", ran.plain)
    site.on("h1", f"mv /run/kept {TARGET}/config.json; rm -rf /srv/models/.delivered.*; kill $(cat /run/reader)")
    site.write(m=fleet.service(source=other, folder=str(other)) | {"model": "/srv/models/next"})
    assert f"clean h1:{TARGET}" in fleet.run("--data", "clean=true").plain
    assert "delivered" not in site.on("h1", "ls /srv/models")
    fleet.declare(folder=str(fleet.source))


def test_a_link_keeps_what_it_leads_to(fleet: DeliverySite) -> None:
    """As long as a declared service, or a release that lies there, has the link as its model."""
    site = fleet.site
    assert fleet.run("--limit", "l1").code == 0
    site.on("l1", f"ln -s {TARGET} /srv/models/link")
    site.write(m=site.service(model="/srv/models/link"))
    assert f"l1:{TARGET} " not in fleet.run("--dry", "--limit", "l1", "--data", "clean=true").plain
    assert site.deploy("--limit", "l1").code == 0
    site.on("l1", "systemctl stop vllm-m")
    site.write(m=site.service())
    told = fleet.run("--dry", "--limit", "l1", "--data", "clean=true").plain
    assert f"stays l1:{TARGET}: the release m/" in told
    site.on("l1", f"{NODE_SCRIPT} drop m; rm /srv/models/link")
    assert f"clean l1:{TARGET}" in fleet.run("--dry", "--limit", "l1", "--data", "clean=true").plain
    fleet.declare(folder=str(fleet.source))


def test_the_report_and_the_output_hold_no_secret(fleet: DeliverySite) -> None:
    text = json.dumps(fleet.report()[1])
    assert "secret" not in text
    journal = fleet.site.on("h1", "journalctl --no-pager -o cat | grep -c RSYNC_PASSWORD || true")
    assert journal == "0"
    assert subprocess.run(["pgrep", "-f", "vllm-fleet-delivery"], capture_output=True).returncode in (0, 1)
