"""How gates are found, asked, waived and listed."""

from pathlib import Path

import pytest

from fleet.declaration import Waiver
from fleet.gate import EVERYWHERE, FleetView, PlacedFinding, catalogue, evaluate, gate, not_asked
from fleet.gate_page import markdown
from fleet.known import Undecidable
from fleet.nodes.node import Deep, NodeFacts, Runtime
from fleet.nodes.nvidia import Nvidia
from fleet.plan import NodeView, Plan
from fleet.verdict import Finding, Verdict
from tests.fleet import builders
from tests.fleet.builders import facts, fleet, fleet_with, gpus, installed, node, service, view

PAGE = Path(__file__).parents[2] / "docs" / "gates.md"
LOST = builders.facts(nvidia=Nvidia(gpus=gpus(7)))


@pytest.fixture
def own_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gates made in a test are gone after it."""
    catalogue()
    import fleet.gate

    monkeypatch.setattr(fleet.gate, "_CATALOGUE", dict(fleet.gate._CATALOGUE))


def named(name: str, verdicts: tuple[Verdict, ...]) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.gate == name]


def test_a_sound_fleet_passes_every_gate_without_a_warning() -> None:
    verdicts = evaluate(fleet())
    assert [str(verdict) for verdict in verdicts if verdict.status != "pass"] == []
    assert {verdict.gate for verdict in verdicts} == {one.name for one in catalogue()}


def test_a_serving_node_passes_every_gate_without_a_warning() -> None:
    port = builders.listening(unit="vllm-glm.service")
    verdicts = evaluate(fleet_with(told=facts(services=(installed(),), ports=(port,))))
    assert [str(verdict) for verdict in verdicts if verdict.status != "pass"] == []


ASKS_NOTHING = {
    *("replicas-driver", "kv-cache-gpu", "pp-evidence", "target-requests", "dev-char", "numa-bind"),
    *("attention-backend", "mounts", "p2p-far", "delivery-room", "peer-names", "peermem", "checkpoint-verified"),
}
"""Gates that have nothing to judge here: nothing is declared that they are about, or `driver` says what is missing."""


def test_a_node_that_could_tell_nothing_passes_no_gate_that_needs_its_facts() -> None:
    blank = NodeFacts(
        hostname="a1",
        now=1,
        nvidia=Nvidia(error="wings"),
        runtime=Runtime(name="podman", error="wings"),
        deep=Deep(nvlinks_error="wings", p2p_error="wings", versions_error="wings"),
        **{f"{part}_error": "wings" for part in ("services", "ports", "numa", "topology", "sources")},
    )
    verdicts = evaluate(fleet_with(told=blank))
    told = {verdict.gate for verdict in verdicts if verdict.status != "pass"}
    left = {one.name for one in catalogue() if one.needs_facts and not one.name.startswith("hosts-")} - told
    assert left == ASKS_NOTHING, "those of an engine over several hosts have nothing to judge on one"
    assert not any("could not decide" in verdict.got for verdict in verdicts)


def test_every_gate_has_an_example_that_fails_or_warns() -> None:
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("gates/test_*.py"))
    words = {"fail": ("fails",), "warn": ("warns",), "fail or warn": ("fails", "warns")}
    missing = [
        f"{word} {one.name}"
        for one in catalogue()
        for word in words[one.severity]
        if f'{word}("{one.name}"' not in text and f'{word}(\n        "{one.name}"' not in text
    ]
    assert missing == []


def test_every_gate_says_what_it_reads() -> None:
    assert [one.name for one in catalogue() if not one.reads] == [], 'want @gate(..., reads="a command, file or field")'


def test_the_page_of_gates_is_made_from_the_code() -> None:
    assert PAGE.read_text() == markdown(), "write fleet.gate.markdown() to docs/gates.md"


def test_a_gate_is_told_in_one_line_with_its_remedy() -> None:
    for one in catalogue():
        assert one.summary.endswith(".") and one.remedy, one.name
        assert f"| `{one.name}`" in markdown()


def test_a_gate_that_needs_a_deep_look_says_nothing_without_one_and_is_named() -> None:
    deep = {one.name for one in catalogue() if one.deep}
    shallow = fleet_with(told=facts(deep=None))
    assert deep and set(not_asked(shallow)) == deep
    assert not {verdict.gate for verdict in evaluate(shallow)} & deep
    assert not_asked(fleet()) == ()
    assert deep <= {verdict.gate for verdict in evaluate(fleet())}


def test_a_waiver_of_a_gate_that_a_shallow_look_leaves_out_is_no_warning() -> None:
    deep = next(one.name for one in catalogue() if one.deep)
    assert not named("waiver", evaluate(fleet_with(told=facts(deep=None)), (waiver(gate=deep),)))


@pytest.mark.usefixtures("own_catalogue")
def test_the_annotation_decides_what_a_gate_is_about() -> None:
    @gate("of-a-node", remedy="-")
    def of_a_node(view: NodeView) -> None:
        """Node."""

    @gate("of-a-service", remedy="-")
    def of_a_service(plan: Plan) -> None:
        """Service."""

    @gate("of-the-fleet", remedy="-")
    def of_the_fleet(fleet: FleetView) -> None:
        """Fleet."""

    verdicts = evaluate(fleet())
    places = [(v.gate, v.node, v.service) for v in verdicts if v.gate.startswith("of-")]
    assert places == [
        ("of-a-node", "a1", None),
        ("of-a-service", "a1", "glm"),
        ("of-the-fleet", EVERYWHERE, None),
    ]


@pytest.mark.usefixtures("own_catalogue")
def test_a_gate_of_nothing_known_without_words_or_with_a_taken_name_is_refused() -> None:
    def of_a_text(text: str) -> None:
        """Text."""

    def wordless(plan: Plan) -> None: ...

    def another(plan: Plan) -> None:
        """Another."""

    with pytest.raises(TypeError, match="NodeView, Plan or FleetView"):
        gate("of-a-text", remedy="-")(of_a_text)
    with pytest.raises(TypeError, match="docstring"):
        gate("wordless", remedy="-")(wordless)
    with pytest.raises(ValueError, match="twice"):
        gate("gpu-count", remedy="-")(another)


@pytest.mark.usefixtures("own_catalogue")
def test_a_gate_with_a_mistake_in_it_fails_and_does_not_end_the_run() -> None:
    @gate("mistaken", remedy="tell its author")
    def mistaken(plan: Plan) -> Finding | None:
        """Mistaken."""
        raise ValueError("first line\nsecond line")

    @gate("wordless", remedy="tell its author")
    def wordless(view: NodeView) -> Finding | None:
        """Wordless."""
        raise AssertionError

    @gate("wrong-answer", remedy="tell its author")
    def wrong_answer(plan: Plan) -> Finding | None:
        """Wrong answer."""
        return False  # type: ignore[return-value]

    verdicts = evaluate(fleet())
    (verdict,) = named("mistaken", verdicts)
    assert verdict.status == "fail"
    assert verdict.got == "the gate could not decide: ValueError: first line"
    assert verdict.remedy == "tell its author"
    assert "AssertionError" in named("wordless", verdicts)[0].got
    assert named("wrong-answer", verdicts)[0].status == "fail"


@pytest.mark.usefixtures("own_catalogue")
def test_each_finding_is_a_verdict_and_only_failures_stop() -> None:
    @gate("three", remedy="restart {service} on {node}")
    def three(plan: Plan) -> list[Finding]:
        """Three."""
        return [
            Finding(want="a", got="b"),
            Finding(want="c", got="d", warning=True),
            Finding(want="e", got="f", remedy="own remedy"),
        ]

    first, second, third = named("three", evaluate(fleet()))
    assert str(first) == "three: want a, found b on a1/glm; restart glm on a1"
    assert (second.status, second.stops) == ("warn", False)
    assert str(third).endswith("; own remedy")


@pytest.mark.usefixtures("own_catalogue")
def test_a_gate_of_the_fleet_says_where() -> None:
    @gate("somewhere", remedy="look at {service} on {node}")
    def somewhere(fleet: FleetView) -> list[PlacedFinding]:
        """Somewhere."""
        return [PlacedFinding(node="a1", service="glm", want="a", got="b")]

    (verdict,) = named("somewhere", evaluate(fleet()))
    assert str(verdict) == "somewhere: want a, found b on a1/glm; look at glm on a1"


@pytest.mark.usefixtures("own_catalogue")
def test_a_gate_that_lacks_a_fact_fails() -> None:
    @gate("ignorant", remedy="general")
    def ignorant(view: NodeView) -> None:
        """Ignorant."""
        raise Undecidable("the firmware", "nothing")

    (verdict,) = named("ignorant", evaluate(fleet()))
    assert str(verdict) == "ignorant: want the firmware, found nothing on a1; general"


def test_verdicts_come_by_node_then_service_then_place_in_the_catalogue() -> None:
    a1 = view(node(), service(name="zeta"), service(name="alpha", port=8001), told=facts())
    a0 = view(node(name="a0"), service(), told=facts())
    one, other = evaluate(fleet(a1, a0)), evaluate(fleet(a0, a1))
    assert one == other
    order = [entry.name for entry in catalogue()]
    keys = [(v.node == EVERYWHERE, v.node, v.service or "", order.index(v.gate)) for v in one]
    assert keys == sorted(keys)


def test_a_node_that_did_not_answer_fails_once_and_cannot_be_waived() -> None:
    silent = fleet(view(node(), service(), told=None))
    verdicts = evaluate(silent, (Waiver(gate="facts", reason="it is fine, surely"),))
    assert [str(v) for v in named("facts", verdicts)] == [
        "facts: want the node's answer to the probe, found none on a1; "
        "make a1 answer over SSH, or leave it out with --limit"
    ]
    assert named("facts", verdicts)[0].stops
    assert not named("gpu-count", verdicts)
    assert named("partition", verdicts)[0].status == "pass"


def test_without_contact_the_gates_that_need_facts_are_left_out_and_named() -> None:
    quiet = fleet(view(node(), service(), told=None))
    verdicts = evaluate(quiet, contact=False)
    (warning,) = named("contact", verdicts)
    left_out = {one.name for one in catalogue() if one.needs_facts}
    assert warning.status == "warn" and all(name in warning.got for name in left_out)
    assert {v.gate for v in verdicts if v.gate != "contact"} == {one.name for one in catalogue()} - left_out
    assert not any(v.stops for v in verdicts)


def test_no_gate_without_the_mark_looks_at_facts() -> None:
    quiet = fleet(view(node(), service(), told=None))
    assert all(v.status == "pass" for v in evaluate(quiet, contact=False) if v.gate != "contact")


def waiver(**changes: object) -> Waiver:
    return Waiver.model_validate({"gate": "gpu-count", "reason": "GPU 7 is in repair"} | changes)


@pytest.mark.parametrize("places", [{}, {"nodes": ["a1"]}, {"nodes": ["b1", "a1"]}])
def test_a_waiver_that_names_the_gate_and_the_place_lets_it_pass_with_its_reason(places: dict[str, list[str]]) -> None:
    (verdict,) = named("gpu-count", evaluate(fleet_with(told=LOST), (waiver(**places),)))
    assert verdict.status == "waived"
    assert str(verdict).endswith("on a1 (GPU 7 is not listed); waived: GPU 7 is in repair")


@pytest.mark.parametrize("places", [{"nodes": ["b1"]}, {"services": ["glm"]}, {"nodes": ["a1"], "services": ["glm"]}])
def test_a_waiver_of_another_place_lets_nothing_pass(places: dict[str, list[str]]) -> None:
    (verdict,) = named("gpu-count", evaluate(fleet_with(told=LOST), (waiver(**places),)))
    assert verdict.stops


def test_a_waiver_of_one_service_does_not_cover_its_neighbour() -> None:
    both = fleet(
        view(
            node(),
            service(gpus=[0, 1, 2, 3], layout={"tp": 3}),
            service(name="other", port=8001, gpus=[4, 5, 6, 7], layout={"tp": 3}),
            told=facts(),
        )
    )
    verdicts = evaluate(both, (waiver(gate="heads-divide", services=["glm"]),))
    assert {v.service: v.status for v in named("heads-divide", verdicts)} == {"glm": "waived", "other": "fail"}


def test_a_waiver_of_one_gate_does_not_cover_another() -> None:
    broken = fleet_with(told=LOST, layout={"tp": 3})
    verdicts = evaluate(broken, (waiver(),))
    assert [v.status for v in (*named("gpu-count", verdicts), *named("heads-divide", verdicts))] == ["waived", "fail"]


def test_a_waiver_with_a_typing_mistake_fails_and_names_the_nearest_gate() -> None:
    (verdict,) = named("waiver", evaluate(fleet(), (waiver(gate="gpu-cuont"),)))
    assert verdict.stops
    assert str(verdict) == "waiver: want waivers of gates that there are, found gpu-cuont on all nodes; write gpu-count"
    (strange,) = named("waiver", evaluate(fleet(), (waiver(gate="qqqqqqqq"),), contact=False))
    assert "fleet gates" in strange.remedy


@pytest.mark.parametrize("places", [{}, {"nodes": ["a1", "b1"]}, {"services": ["glm"]}])
def test_a_waiver_that_nothing_needs_is_a_warning(places: dict[str, list[str]]) -> None:
    (verdict,) = named("waiver", evaluate(fleet(), (waiver(**places),)))
    assert verdict.status == "warn" and "gpu-count" in verdict.got


def test_a_waiver_for_a_node_outside_this_run_is_no_warning() -> None:
    assert not named("waiver", evaluate(fleet(), (waiver(nodes=["b1"]), waiver(services=["other"]))))


def test_a_waiver_of_a_gate_that_was_left_out_is_no_warning() -> None:
    quiet = fleet(view(node(), service(), told=None))
    assert not named("waiver", evaluate(quiet, (waiver(),), contact=False))


def test_a_warning_is_not_waived() -> None:
    long = fleet_with(config=builders.GLM | {"max_position_embeddings": None})
    (verdict,) = named("max-model-len", evaluate(long, (waiver(gate="max-model-len"),)))
    assert verdict.status == "warn"


def test_no_verdict_tells_the_value_of_a_secret_or_of_the_environment() -> None:
    value = "hunter2-hunter2"
    hidden = fleet_with(
        env={"VLLM_PP_LAYER_PARTITION": value, "HF_TOKEN": value, "VLLM_ALLOW_LONG_MAX_MODEL_LEN": value},
        secrets={"VLLM_USE_V2_MODEL_RUNNER": {"env": "SOME"}},
        flags={"--hf-token": value, "--max-model-len": value},
        max_model_len=10**7,
    )
    verdicts = evaluate(hidden)
    assert any(v.stops for v in verdicts)
    assert value not in "".join(v.model_dump_json() for v in verdicts)
