"""`--dry --diff` shows what a rollout would do, and leaves every node byte for byte as it was."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from node_image import difference, image_of
from rollout_site import Ran, RolloutSite

from fleet.releases.command import STATE

pytestmark = pytest.mark.lab
OLD, NEW = "first-secret-value-42", "other-secret-value-43"


@dataclass
class Look:
    """One dry run: what it said, and every node before and after it."""

    ran: Ran
    before: dict[str, list[str]]
    after: dict[str, list[str]]


def declared(site: RolloutSite) -> dict[str, Any]:
    """A service with a secret, which the controller finds in its environment."""
    return site.service(env={"GREETING": "good day"}, secrets={"TOKEN": {"env": "SITE_TOKEN"}})


@pytest.fixture(scope="module")
def look(shared_site: RolloutSite) -> Iterator[Look]:
    """a1 would get another release, h1 is as declared, and l1 was booted a moment ago and has nothing of ours."""
    site = shared_site
    site.lab.replace("l1")
    site.fault("l1")  # the folder that the service mounts
    site.write(chat=declared(site))
    first = site.deploy("--limit", "a1", "--limit", "h1", SITE_TOKEN=OLD)
    assert first.code == 0, first.out
    node = site.fleet / "a1.yaml"
    change = {"max_model_len": 2048, "env": {"GREETING": "good morning"}, "secrets": {"TOKEN": {"env": "NEW_TOKEN"}}}
    node.write_text(yaml.safe_dump(yaml.safe_load(node.read_text()) | {"services": {"chat": change}}))
    before = {name: image_of(site.lab, name) for name in site.nodes}
    ran = site.pyinfra("deploy.py", "--dry", "--diff", SITE_TOKEN=OLD, NEW_TOKEN=NEW)
    yield Look(ran, before, {name: image_of(site.lab, name) for name in site.nodes})


@pytest.mark.parametrize("node", ["a1", "h1", "l1"])
def test_a_dry_run_leaves_files_processes_images_and_containers_as_they_were(look: Look, node: str) -> None:
    assert look.ran.code == 0, look.ran.out
    assert difference(look.before[node], look.after[node]) == []
    assert len(look.before[node]) > 10_000, "the whole node is looked at"


def test_a_look_at_a_node_sees_what_changes(shared_site: RolloutSite, look: Look) -> None:
    site = shared_site
    changes = f"chmod 640 {STATE}/chat/current/env; touch /var/lib/new && rm /var/lib/new; systemctl kill vllm-chat"
    site.on("h1", changes)
    seen = " ".join(difference(look.after["h1"], image_of(site.lab, "h1")))
    assert f"{STATE}/chat/releases/" in seen and "/var/lib d" in seen and "MainPID=" in seen, seen


def test_a_dry_run_shows_gates_and_the_plan_in_words(look: Look) -> None:
    for text in (
        "passed everywhere: ",
        ", last-replica",
        "Plan: 2 to change, 1 as declared",
        "a1/chat: update (new release)",
        "flag --max-model-len: 4096 -> 2048",
        "env GREETING: good day -> good morning",
        "secret TOKEN: changed",
        "l1/chat: create (first release on this node)",
        "Dry run: nothing was changed, no lock was taken.",
    ):
        assert text in look.ran.plain, look.ran.out
    assert "h1/chat: " not in look.ran.plain, "nothing changes there; gates may warn of it"


def test_a_dry_run_shows_the_files_line_by_line(look: Look) -> None:
    lines = look.ran.out.splitlines()
    units = [place for place, line in enumerate(lines) if line == "+++ /etc/systemd/system/vllm-chat.service"]
    changed, fresh = lines[units[0] : units[1]], lines[units[1] :]
    assert "-    --max-model-len 4096 \\" in changed and "+    --max-model-len 2048 \\" in changed
    assert '-GREETING="good day"' in lines and '+GREETING="good morning"' in lines
    assert lines[units[1] - 1] == "--- /dev/null", "the whole unit, though its folder is not there"
    for line in ("+[Service]", "+    --max-model-len 4096 \\", "+WantedBy=multi-user.target"):
        assert line in fresh


def test_a_dry_run_shows_no_secret(look: Look) -> None:
    assert "TOKEN" in look.ran.out
    assert OLD not in look.ran.out and NEW not in look.ran.out


def test_gates_that_refuse_a_fresh_node_leave_it_as_it_was(shared_site: RolloutSite, look: Look) -> None:
    site = shared_site
    missing = declared(site)
    site.write(chat={**missing, "image": {**missing["image"], "digest": f"sha256:{'0' * 64}"}})
    ran = site.pyinfra("deploy.py", "--dry", "--diff", "--limit", "l1", SITE_TOKEN=OLD, NEW_TOKEN=NEW)
    assert ran.code == 1 and "image-present" in ran.plain, ran.out
    assert difference(look.after["l1"], image_of(site.lab, "l1")) == []
