"""Images come as archives and count by their digest alone; the one before stays findable until it is cleaned."""

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest
from delivery_images import NAME, liar, tiny
from delivery_site import DeliverySite
from rollout_site import RolloutSite

pytestmark = pytest.mark.lab
NODE = "a1"
IMAGES = "podman images --format '{{.Repository}}:{{.Tag}} {{.Digest}}' | grep tiny || true"


@pytest.fixture(scope="module")
def fleet(shared_site: RolloutSite) -> DeliverySite:
    shared_site.nodes = (NODE,)
    for path in shared_site.fleet.glob("*.yaml"):
        if path.stem != NODE:
            path.unlink()
    made = DeliverySite(shared_site, shards=1, mib=1)
    made.tidy()
    return made


@pytest.fixture(scope="module")
def first(fleet: DeliverySite) -> tuple[str, Path]:
    return tiny(fleet.site.root, "first", tag="latest")


def declare(fleet: DeliverySite, digest: str, archive: Path, **other: Any) -> None:
    image = {"name": NAME, "digest": digest, "engine": "0.30.0", "archive": str(archive)}
    fleet.site.write(m=fleet.site.service(image=image, **other))


def inspect(fleet: DeliverySite, digest: str) -> str:
    return fleet.site.on(NODE, f"podman image inspect --format '{{{{.Digest}}}}' {NAME}@{digest} 2>/dev/null || true")


def test_an_archive_that_lies_about_its_image_is_named_and_nothing_of_it_stays(fleet: DeliverySite) -> None:
    declare(fleet, "sha256:" + "5" * 64, liar(fleet.site.root))
    ran = fleet.run()
    assert ran.code == 1
    assert f"want sha256:{'5' * 64} in the archive of {NAME}, found sha256:" in ran.plain
    assert "save it anew, or declare the digest that it has" in ran.plain
    assert fleet.site.on(NODE, IMAGES) == ""
    assert fleet.site.on(NODE, "ls /var/lib/vllm-fleet/.delivery/archives 2>/dev/null || true") == ""


def test_an_archive_of_another_image_is_refused_before_it_moves(fleet: DeliverySite, first: tuple[str, Path]) -> None:
    declare(fleet, "sha256:" + "6" * 64, first[1])
    ran = fleet.run()
    assert ran.code == 1
    assert f"want the image sha256:{'6' * 64}, found {first[0]}" in ran.plain
    assert "nothing was moved" in ran.plain


def test_an_image_that_takes_the_tag_of_another_leaves_that_one_findable(
    fleet: DeliverySite, first: tuple[str, Path]
) -> None:
    second, archive = tiny(fleet.site.root, "second", tag="latest")
    for digest, file in (first, (second, archive)):
        declare(fleet, digest, file)
        ran = fleet.run()
        assert ran.code == 0, ran.out
    assert inspect(fleet, first[0]) == first[0]
    assert inspect(fleet, second) == second
    assert "Nothing to deliver" in fleet.run().plain


def test_an_archive_that_lies_on_a_node_serves_that_node_too(fleet: DeliverySite) -> None:
    digest, archive = tiny(fleet.site.root, "third", tag="latest")
    text = archive.read_bytes()
    declared = {"peer": NODE, "file": "/srv/archives/third.tar", "bytes": len(text)}
    declared["sha256"] = f"sha256:{hashlib.sha256(text).hexdigest()}"
    image = {"name": NAME, "digest": digest, "engine": "0.30.0", "archive": declared}
    fleet.site.write(m=fleet.site.service(image=image))
    ran = fleet.run()
    assert ran.code == 1
    assert f"want /srv/archives/third.tar on {NODE} of {len(text)} bytes, found nothing" in ran.plain
    fleet.site.on(NODE, "mkdir /srv/archives")
    sent = base64.b64encode(text).decode()
    assert fleet.site.lab.ssh(NODE, "base64 -d >/srv/archives/third.tar", input=sent).returncode == 0
    ran = fleet.run()
    assert ran.code == 0, ran.out
    assert inspect(fleet, digest) == digest
    assert fleet.site.on(NODE, "ls /srv/archives") == "third.tar"


def test_an_image_that_nothing_needs_goes_only_where_it_is_asked_for(
    fleet: DeliverySite, first: tuple[str, Path]
) -> None:
    told = fleet.run("--dry", "--diff", "--data", "clean=true")
    assert f"clean {NODE}:{NAME}@{first[0]}" in told.plain
    assert inspect(fleet, first[0])
    ran = fleet.run("--data", "clean=true")
    assert ran.code == 0, ran.out
    assert inspect(fleet, first[0]) == ""
    assert fleet.site.on(NODE, IMAGES).count(NAME) >= 1
    assert "nothing that deliveries left is there" in fleet.run("--dry", "--data", "clean=true").plain
