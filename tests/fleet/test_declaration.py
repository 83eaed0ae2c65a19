"""What an owner may declare, and what is refused before anything is asked."""

from typing import Any

import pytest
from pydantic import ValidationError

from fleet.declaration import Evidence, Fleet, ImageDeclaration, Mount, Placement, SecretReference, Speculative, Waiver
from fleet.policy import Hook, RolloutPolicy
from tests.fleet.builders import DIGEST, node, service


@pytest.mark.parametrize("name", ["", "GLM", "glm 5", "../glm", "glm/5", "-glm", "glm_5", "a" * 42, "glm\n"])
def test_a_service_name_is_safe_in_a_path_and_a_unit(name: str) -> None:
    with pytest.raises(ValidationError, match="a service name"):
        service(name=name)


@pytest.mark.parametrize("name", ["", "a b", "../a", "a/b", "-a", "a" * 64, "a1\n"])
def test_a_node_name_is_safe_in_a_path(name: str) -> None:
    with pytest.raises(ValidationError, match="a node name"):
        node(name=name)


@pytest.mark.parametrize("extra", [{"modle": "/m"}, {"layout": {"tp": 1, "ppp": 2}}, {"policy": {"drain_seconds": 3}}])
def test_an_unknown_field_is_refused(extra: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        service(**extra)


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": "glm"},
        {"model": "/m\n"},
        {"port": 0},
        {"port": 65536},
        {"layout": {"tp": 0}},
        {"layout": "even"},
        {"layout": {"partition": "41,x"}},
        {"max_model_len": 0},
        {"gpu_memory_utilization": 0},
        {"gpu_memory_utilization": 1.1},
        {"speculative": "mtp:x"},
        {"speculative": "mtp:0"},
        {"env": {"1A": "x"}},
        {"flags": {"-tp": 8}},
        {"flags": {"max-num-seqs": 8}},
        {"image": {"name": "vllm", "digest": "sha256:abc", "engine": "0.30.0"}},
        {"image": {"name": "vllm", "digest": DIGEST, "engine": "latest"}},
        {"env": {"A": "1"}, "secrets": {"A": {"env": "B"}}},
        {"v2_runner": "yes please"},
    ],
)
def test_a_value_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        service(**wrong)


@pytest.mark.parametrize("written", ["41,37", " 41 , 37 ", [41, 37], (41, 37)])
def test_a_partition_may_be_written_as_one_text(written: object) -> None:
    layout = service(layout={"pp": 2, "partition": written}).layout
    assert layout != "auto" and layout.partition == (41, 37)


def test_one_number_is_a_list_of_one() -> None:
    assert service(gpus=3).gpus == (3,)
    assert service(gpus="3").gpus == (3,)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("mtp", Speculative(method="mtp", k=3)),
        ("mtp:2", Speculative(method="mtp", k=2)),
        ({"method": "eagle3", "k": 5}, Speculative(method="eagle3", k=5)),
        ("none", "none"),
        ("auto", "auto"),
    ],
)
def test_speculation_has_short_forms(written: object, read: object) -> None:
    assert service(speculative=written).speculative == read
    assert str(Speculative(method="mtp", k=2)) == "mtp:2"


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("vllm", "vllm"),
        ("vllm:0.30.0", "vllm"),
        ("host.example:5000/site/vllm", "host.example:5000/site/vllm"),
        ("host.example:5000/site/vllm:0.30.0", "host.example:5000/site/vllm"),
    ],
)
def test_the_digest_alone_decides_which_image_runs(name: str, reference: str) -> None:
    assert ImageDeclaration(name=name, digest=DIGEST, engine="0.30.0").reference == f"{reference}@{DIGEST}"


def test_clients_send_the_service_name_unless_another_is_declared() -> None:
    assert service().served_name == "glm"
    assert service(served_model_name="GLM 5.2").served_name == "GLM 5.2"


@pytest.mark.parametrize("islands", [((0, 8),), ((0, 1), (1, 2)), ((-1, 0),)])
def test_an_island_names_gpus_that_there_are_each_once(islands: object) -> None:
    with pytest.raises(ValidationError, match="nvlink_islands"):
        node(nvlink_islands=islands)


def test_numa_has_one_entry_for_each_gpu() -> None:
    with pytest.raises(ValidationError, match="want 8 entries"):
        node(numa=(0, 0))
    assert node(numa=()).numa == ()


@pytest.mark.parametrize("wrong", [{}, {"env": "A", "file": "/a"}, {"value": "hunter2"}])
def test_a_secret_is_a_reference_to_one_place(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        SecretReference.model_validate(wrong)


@pytest.mark.parametrize("batches", [[], ["0"], ["0%"], ["101%"], ["half"], ["1.5"], [-1]])
def test_batches_are_counts_or_percents(batches: list[object]) -> None:
    with pytest.raises(ValidationError, match="batches"):
        RolloutPolicy.model_validate({"batches": batches})


def test_batches_may_be_numbers() -> None:
    assert RolloutPolicy.model_validate({"batches": [1, "25%", "100%"]}).batches == ("1", "25%", "100%")


@pytest.mark.parametrize("wrong", [{"gate": "x"}, {"gate": "x", "reason": "short"}])
def test_a_waiver_says_why(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="reason"):
        Waiver.model_validate(wrong)


def test_a_hook_is_words_and_a_mount_is_two_absolute_paths() -> None:
    with pytest.raises(ValidationError):
        Hook.model_validate({"command": []})
    with pytest.raises(ValidationError):
        Hook.model_validate({"command": "drain.sh a1"})
    with pytest.raises(ValidationError, match="an absolute path"):
        Mount.model_validate({"source": "data", "target": "/data"})


def test_evidence_counts_at_least_one_trial() -> None:
    with pytest.raises(ValidationError):
        Evidence.model_validate({"model": "m", "engine": "0.30.0", "partition": [1], "trials": 0, "bad": 0})


def test_a_fleet_finds_its_nodes_by_name() -> None:
    fleet = Fleet(name="site", placements=(Placement(node=node(), services=(service(),)),))
    assert fleet.placement("a1").services[0].name == "glm"
    with pytest.raises(KeyError):
        fleet.placement("a2")


def test_an_objective_is_a_goal_or_a_target() -> None:
    assert service().objective == "latency"
    assert service(objective="throughput").objective == "throughput"
    target = service(objective={"context": 131_328, "concurrent": 5, "tpot_p99_ms": 50}).objective
    assert str(target) == "5 requests of 131,328 tokens, TPOT 50 ms"


@pytest.mark.parametrize(
    "wrong",
    [
        "speed",
        {"concurrent": 4},
        {"context": 0},
        {"context": 4096, "tpot_p99_ms": float("nan")},
        {"context": 4096, "ttft_p99_s": 0},
        {"context": 4096, "tpot": 5},
    ],
)
def test_a_wrong_objective_is_refused(wrong: object) -> None:
    with pytest.raises(ValidationError, match="objective"):
        service(objective=wrong)


def test_a_target_longer_than_the_engine_takes_is_refused() -> None:
    with pytest.raises(ValidationError, match="objective: want a context of at most 524288, the max_model_len"):
        service(objective={"context": 524_289})
