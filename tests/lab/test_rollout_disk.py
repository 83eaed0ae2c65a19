"""A disk that is full, or too full: nothing is activated anywhere, and the old release serves on."""

from collections.abc import Iterator
from typing import Any

import pytest
from rollout_site import RolloutSite

from fleet.releases.command import STATE

pytestmark = pytest.mark.lab
HOG = "/root/hog"


@pytest.fixture(scope="module")
def rolled(shared_site: RolloutSite) -> RolloutSite:
    """Two nodes that serve a proven release, and do not ask for room."""
    (shared_site.fleet / "l1.yaml").unlink()
    shared_site.nodes = ("a1", "h1")
    shared_site.rollout = {"batches": ["100%"], "min_free_gib": 0}
    shared_site.write(llm=shared_site.service())
    ran = shared_site.deploy()
    assert ran.code == 0, ran.out
    return shared_site


@pytest.fixture(autouse=True)
def room(rolled: RolloutSite) -> Iterator[None]:
    """Room again after each test, and no lock."""
    yield
    rolled.lab.resize_disk("h1", "2G")
    rolled.on("h1", f"rm -f {HOG}")
    for node in rolled.nodes:
        assert rolled.on(node, f"ls {STATE}/lock {STATE}/*/pending 2>/dev/null; true") == ""


def look(site: RolloutSite) -> dict[str, dict[str, str]]:
    return {node: site.state(node, "llm") for node in site.nodes}


def fill(site: RolloutSite, node: str, left_kib: int) -> None:
    """Take all room of a node's disk but so many KiB."""
    site.lab.resize_disk(node, "300M")
    script = f"free=$(stat -f -c '%a*%S/1024' {STATE}); fallocate -l $(( (free) - {left_kib} ))KiB {HOG}; sync"
    site.on(node, script)


def status(told: dict[str, Any]) -> dict[str, str]:
    return {row["node"]: row["status"] for row in told["results"]}


def test_too_little_room_is_refused_before_anything(rolled: RolloutSite) -> None:
    rolled.write(llm=rolled.service(max_model_len=2048))
    rolled.lab.resize_disk("h1", "300M")
    before = rolled.marks()
    ran = rolled.deploy("--data", "min_free_gib=1")
    assert ran.code == 1
    assert f"fail disk-room: want 1 GiB free in {STATE}, found 0.2" in ran.plain, ran.out
    assert "on h1; free room on h1, or lower rollout.min_free_gib" in ran.plain
    assert rolled.marks() == before


def test_a_disk_that_is_full_at_staging_stops_all_before_anything_is_activated(rolled: RolloutSite) -> None:
    before = look(rolled)
    rolled.write(llm=rolled.service(max_model_len=1024, env={"PADDING": "x" * 60000}))
    fill(rolled, "h1", left_kib=64)
    code, told = rolled.report()
    assert code == 1
    assert status(told) == {"a1": "untouched", "h1": "failed"}
    assert "h1 could not be staged, so nothing was activated anywhere: " in told["stopped"]
    assert "is the disk full?" in told["stopped"]
    assert look(rolled) == before
    assert rolled.on("h1", f"ls -A {STATE}/llm/releases") == before["h1"]["current"], "nothing half is left"
    rolled.lab.resize_disk("h1", "2G")
    code, told = rolled.report()
    assert (code, status(told)) == (0, {"a1": "proven", "h1": "proven"})


def test_a_disk_without_room_for_a_lock_is_told_as_that(rolled: RolloutSite) -> None:
    before = look(rolled)
    rolled.write(llm=rolled.service(max_model_len=512))
    fill(rolled, "h1", left_kib=0)
    ran = rolled.deploy()
    assert ran.code == 1
    assert f"lock: want h1 to take a lock, found cannot write {STATE}/lock; is the disk full?" in ran.plain
    assert look(rolled) == before
