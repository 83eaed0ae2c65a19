"""What a node tells a delivery: what is verified, what lies there, what an earlier run left, who reads what."""

import json
import subprocess
from pathlib import Path

import pytest
from fake_node import CURRENT, FakeNode

from facts.parse.delivered import read_room, read_verified
from facts.parse.delivery import SECTIONS, parse_look, running
from facts.parse.frames import ProbeError, parse_frames
from facts.script import sections_script
from fleet.delivery.delivery import FolderLook
from fleet.nodes.node import Installed, OwnFile, Unit
from fleet.nodes.request import CheckpointRequest, ProbeRequest

DIGEST = "sha256:" + "5" * 64


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    made = FakeNode(tmp_path)
    made.program("systemctl", "exit 0")
    made.program("sha256sum", 'exec /usr/bin/sha256sum "$@"')
    return made


def request(path: Path) -> ProbeRequest:
    return ProbeRequest(checkpoints=(CheckpointRequest(path=str(path), digest=DIGEST, key="k"),))


def folder(node: FakeNode, path: Path) -> FolderLook:
    text, script = node.ask(request(path), *SECTIONS)
    (found,) = parse_look("n1", text, script).folders
    return found


def remember(node: FakeNode, path: Path) -> None:
    """As a delivery does after it compared the folder: with the section's own listing."""
    script = sections_script(("delivered",), request(path)).text
    listing = script[script.index("listing_of()") :]
    listing = listing[: listing.index("\n}") + 2]
    done = subprocess.run(
        ["bash", "-c", f"export LC_ALL=C\n{listing}\nprintf '%s\\n' {DIGEST}; listing_of {path}"],
        capture_output=True,
        check=True,
    )
    record = node.state / ".delivery" / "k.verified"
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_bytes(done.stdout)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    made = tmp_path / "models" / "glm"
    (made / "sub").mkdir(parents=True)
    (made / "a b").write_text("12345")
    (made / "sub" / "c").write_text("1")
    return made


def test_nothing_there_is_told_with_the_room(node: FakeNode, tmp_path: Path) -> None:
    found = folder(node, tmp_path / "models" / "glm")
    assert (found.kind, found.verified, found.there) == ("absent", None, {})
    assert found.free_bytes is not None and found.free_bytes > 0


def test_a_folder_that_was_not_compared_is_told_with_its_sizes(node: FakeNode, model: Path) -> None:
    (model / "link").symlink_to("a b")
    found = folder(node, model)
    assert (found.kind, found.verified) == ("folder", None)
    assert found.there == {"a b": 5, "sub/c": 1}
    assert found.odd == ("link",)


def test_a_folder_is_verified_until_anything_in_it_is_touched(node: FakeNode, model: Path) -> None:
    remember(node, model)
    assert folder(node, model).verified == DIGEST
    (model / "a b").write_text("12346")
    assert folder(node, model).verified is None
    remember(node, model)
    (model / "stray").touch()
    assert folder(node, model).verified is None


def test_what_an_earlier_run_left_is_told(node: FakeNode, model: Path) -> None:
    staging = model.parent / f".glm.{DIGEST[7:19]}.delivery"
    (staging / "files").mkdir(parents=True)
    (staging / "parts" / "sub").mkdir(parents=True)
    (staging / "files" / "a b").write_text("12345")
    (staging / "parts" / "sub" / "c").write_text("")
    (model.parent / ".glm.replaced.1").mkdir()
    found = folder(node, model)
    assert (found.staged, found.parts) == ({"a b": 5}, {"sub/c": 0})
    assert found.beside == (staging.name, ".glm.replaced.1")


def test_the_probe_of_a_rollout_tells_it_too(node: FakeNode, model: Path) -> None:
    remember(node, model)
    text, script = node.ask(request(model), "delivered")
    section = parse_frames(text, script.nonce)["delivered"]
    assert read_verified(section) == {str(model): DIGEST} and read_room(section) == {}


def test_what_lies_there_and_the_room_for_the_rest_is_told_where_it_is_not_verified(
    node: FakeNode, model: Path
) -> None:
    staging = model.parent / f".glm.{DIGEST[7:19]}.delivery" / "files"
    staging.mkdir(parents=True)
    (staging / "d").write_text("123")
    text, script = node.ask(request(model), "delivered")
    (told,) = read_room(parse_frames(text, script.nonce)["delivered"]).values()
    assert told["held_bytes"] == 9 and told["room_bytes"] > 0


def service(text: str | None, active: str = "active") -> Installed:
    plan = OwnFile(
        path=f"/var/lib/vllm-fleet/m/releases/{CURRENT}/plan.json", sha256="", mode="600", owner="root:root", text=text
    )
    unit = Unit(name="vllm-m.service", load="loaded", active=active, sub="running", enabled="enabled")
    return Installed(name="m", current=CURRENT, files=(plan,), unit=unit)


def test_what_a_running_engine_reads_is_its_model_and_its_volumes() -> None:
    document = {"model": "/srv/m", "command": ["podman", "run", "--volume", "/srv/m:/srv/m:ro", "--volume", "/data:/d"]}
    assert running((service(json.dumps(document)),)) == {"/srv/m": "m", "/data": "m"}
    assert running((service(json.dumps(document), active="inactive"),)) == {}


def test_a_running_engine_whose_plan_cannot_be_read_is_not_taken_for_one_that_reads_nothing() -> None:
    with pytest.raises(ProbeError, match="what it reads is not known"):
        running((service(None),))
