"""What one look says of an engine over several hosts: one answer for all of its hosts."""

import hashlib

from facts.gather import Answer
from fleet.declaration import Fleet
from fleet.nodes.node import NodeFacts, OwnFile, Unit
from fleet.releases.difference import expected_files
from operations.survey import Secrets, Survey, survey
from tests.fleet.builders import facts, image, installed, node, service, view
from tests.fleet.test_span import ADDRESS, NODES, peers, spanning


def look(told: dict[str, NodeFacts | None]) -> Survey:
    """a1 and a2 run glm together, a3 runs one of its own. None: that node does not answer."""
    placements = []
    for name in ("a1", "a2", "a3"):
        own = spanning() if name in NODES else service()
        made = view(node(name=name, address=ADDRESS[name]), own, told=told[name]).placement
        known = {other: ADDRESS[other] for other in NODES if other != name} if name in NODES else {}
        placements.append(made.model_copy(update={"peers": known}))
    fleet = Fleet(name="prod", placements=tuple(placements))
    answers = {name: Answer(node=name, facts=one, reason=None if one else "silent") for name, one in told.items()}
    return survey(fleet, answers, Secrets())


def sound(name: str, **changes: object) -> NodeFacts:
    return facts(peers=peers(name) if name in NODES else (), **changes)


def test_all_hosts_that_are_sound_may_be_changed() -> None:
    found = look({name: sound(name) for name in ("a1", "a2", "a3")})
    assert found.failing == frozenset()
    assert [change.kind for change in found.changes] == ["create"] * 3


def test_a_host_that_is_silent_takes_the_others_of_its_engine_out_and_nobody_else() -> None:
    found = look({"a1": sound("a1"), "a2": None, "a3": sound("a3")})
    assert found.failing == {"a1", "a2"}
    assert {change.node for change in found.work(prune=False)} == {"a3"}


def test_a_host_whose_gates_fail_takes_the_others_of_its_engine_out() -> None:
    late = sound("a2", clock_ahead_s=9.0)
    assert look({"a1": sound("a1"), "a2": late, "a3": sound("a3")}).failing == {"a1", "a2"}
    no_image = sound("a3", runtime={"name": "podman", "images": [image("sha256:" + "f" * 64)]})
    assert look({"a1": sound("a1"), "a2": sound("a2"), "a3": no_image}).failing == {"a3"}


def test_where_one_host_does_not_run_the_others_start_anew_with_it() -> None:
    first = look({name: sound(name) for name in ("a1", "a2", "a3")})

    def lying(name: str, active: str) -> NodeFacts:
        release = first.releases[name, "glm"]
        unit = Unit(name="vllm-glm.service", load="loaded", active=active, sub="running", enabled="enabled")
        files = tuple(
            OwnFile(
                path=path, sha256=hashlib.sha256(text.encode()).hexdigest(), mode=mode, owner="root:root", text=text
            )
            for path, (mode, text) in expected_files(release).items()
        )
        own = {"current": release.id, "proven": release.id, "releases": (release.id,)}
        return sound(name, services=(installed(**own, unit=unit, files=files),))

    found = look({"a1": lying("a1", "active"), "a2": lying("a2", "failed"), "a3": lying("a3", "active")})
    assert [change.kind for change in found.changes] == ["rejoin", "start", "none"]
    assert found.changes[0].words == ("a2 of the same engine changes",)


def test_hosts_of_one_engine_have_releases_of_their_own_tied_by_one_digest() -> None:
    found = look({name: sound(name) for name in ("a1", "a2", "a3")})
    spans = {plan.node.name: plan.span for plan in found.plans}
    assert spans["a1"] and spans["a2"] and spans["a1"].digest == spans["a2"].digest != ""
    assert spans["a3"] is None
    assert found.releases["a1", "glm"].id != found.releases["a2", "glm"].id
    assert spans["a1"].digest in found.releases["a2", "glm"].files["plan.json"]


def test_a_part_that_its_engine_gives_up_is_not_removed_before_the_others_have_changed() -> None:
    first = look({name: sound(name) for name in ("a1", "a2", "a3")})
    release = first.releases["a2", "glm"]
    path = f"/var/lib/vllm-fleet/glm/releases/{release.id}/plan.json"
    document = OwnFile(path=path, sha256="0", mode="600", owner="root:root", text=release.files["plan.json"])
    part = installed(current=release.id, proven=release.id, files=(document,))
    placements = (
        view(node(name="a1", address=ADDRESS["a1"]), service(), told=None).placement,
        view(node(name="a2", address=ADDRESS["a2"]), told=None).placement,
    )
    fleet = Fleet(name="prod", placements=placements)
    told = {"a1": facts(), "a2": facts(services=(part,))}
    found = survey(fleet, {name: Answer(node=name, facts=one) for name, one in told.items()}, Secrets(), prune=True)
    assert [(change.node, change.kind) for change in found.work(prune=True)] == [("a1", "create")]
    assert [(change.node, change.kind) for change in found.kept(prune=True)] == [("a2", "remove")]
    assert found.kept(prune=False) == ()
    alone = survey(
        Fleet(name="prod", placements=placements[1:]), {"a2": Answer(node="a2", facts=told["a2"])}, Secrets()
    )
    assert [(change.node, change.kind) for change in alone.work(prune=True)] == [("a2", "remove")]
