"""`fleet plan` and `fleet compare`: what fits, offline and on recorded nodes, and what they say of bad input."""

import json
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import pytest
from offline_fleet import MODELS, NODES, Said, fleet, recorded_fleet

GLM, QWEN, A1, H1 = (
    MODELS / "glm-dsa-78/config.json",
    MODELS / "qwen-72b/config.json",
    NODES / "a1.yaml",
    NODES / "h1.yaml",
)
AS_RUN = (
    "--kv-cache-dtype", "fp8_ds_mla", "--speculative", "mtp:3", "--gpu-memory-utilization", "0.95",
    "--max-model-len", "524288", "--engine", "0.30.0",
)  # fmt: skip


def plan(config: Path = GLM, node: Path = A1, *words: str) -> Said:
    return fleet("plan", "--config", config, "--node", node, *words)


@pytest.fixture(scope="module")
def glm() -> Any:
    said = plan(GLM, A1, *AS_RUN, "--prompt", "131072", "--json")
    assert said.code == 0, said.err
    return said.json


def test_the_chosen_layout_is_told_with_its_ranks(glm: Any) -> None:
    assert glm["layout"] == {"tp": 4, "pp": 2, "dp": 1, "partition": [42, 36], "device_order": [*range(8)]}
    assert glm["ranks"][4] == {"rank": 4, "gpu": 4, "stage": 1, "numa": 1}


def test_the_ledger_of_each_stage_adds_up_to_what_the_engine_may_use(glm: Any) -> None:
    for stage in glm["stages"]:
        used = stage["weights_gib"] + stage["engine_gib"] + stage["kv_gib"]
        assert used == pytest.approx(stage["limit_gib"], abs=0.002) and stage["limit_gib"] < stage["gpu_gib"]
    assert glm["stages"][0]["layers"] == [0, 41] and glm["stages"][1]["draft_layers"] == 1
    assert glm["pool_tokens"] == min(stage["tokens"] for stage in glm["stages"])
    assert glm["pool_range"][0] < glm["pool_tokens"] < glm["pool_range"][1]


def test_resident_requests_are_rounded_down_and_the_note_says_what_they_are_not(glm: Any) -> None:
    requests = glm["requests"]
    assert (requests["tokens"], requests["resident"]) == (131_328, glm["pool_tokens"] // 131_328)
    assert (
        "is not 4 times faster" in requests["note"] and "prompt tokens x N / measured prefill rate" in requests["note"]
    )


def test_every_rejected_layout_has_its_reason(glm: Any) -> None:
    reasons = {(one["layout"], str(one["partition"])): one["reason"] for one in glm["rejected"]}
    assert reasons["TP4/PP2", "[39, 39]"] == "stage 1 starts on layer 39, which shares layer 38's indices"
    assert reasons["TP4/PP1", "None"].startswith("weights 100.") and "exceed 75.3" in reasons["TP4/PP1", "None"]
    assert all(one["reason"] for one in glm["rejected"])


def test_dimensions_that_are_not_used_say_why(glm: Any) -> None:
    unused = {one["dimension"]: one["why"] for one in glm["unused"]}
    wanted = ("DCP", "PCP", "DP", "EP", "block size", "blocks override", "KV bytes override", "NCCL settings")
    assert all(unused[name] for name in wanted)
    assert "a second one would need 16" in unused["DP"]


def test_a_measured_prefill_rate_gives_the_time_to_read() -> None:
    said = plan(GLM, A1, *AS_RUN, "--prompt", "131072", "--prefill-tokens-per-s", "2600", "--json")
    assert "131,072 x 4 / 2600 tokens/s (declared) is about 202 s" in said.json["requests"]["note"]


def test_people_read_bars_and_machines_one_document() -> None:
    said = plan(GLM, A1, *AS_RUN)
    assert "TP4/PP2 42,36, chosen for latency" in said.out
    assert said.out.count("█") > 40 and "binds" in said.out and "Not used:" in said.out


def test_a_picture_is_written(tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    assert plan(GLM, A1, *AS_RUN, "--svg", str(picture)).code == 0
    root = xml.parse(picture).getroot()
    texts = [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert any("TP4/PP2 42,36" in text for text in texts)
    bars = [bar for bar in root.iter("{http://www.w3.org/2000/svg}rect") if bar.get("height") == "22"]
    assert len(bars) == 2 * 4 and all(float(bar.get("width", "0")) > 0 for bar in bars)


def test_a_layout_can_be_asked_about_by_name() -> None:
    asked = plan(GLM, A1, *AS_RUN, "--layout", "TP4/PP2/41,37", "--boundary-repaired", "--json")
    assert (asked.code, asked.json["layout"]["partition"], asked.json["declared"]) == (0, [41, 37], True)
    refused = plan(GLM, A1, *AS_RUN, "--layout", "tp4/pp2/41,37", "--json")
    assert refused.code == 1 and "which shares layer 38's indices" in refused.json["problem"]
    even = plan(GLM, A1, *AS_RUN, "--layout", "pp2/tp4/even", "--json")
    assert even.json["layout"]["partition"] == [39, 39]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("tp4/tp2", "want auto, declared, or one such as tp4/pp2/41,37"),
        ("big", "want auto, declared, or one such as tp4/pp2/41,37"),
        ("tp0", "want sizes of at least 1"),
        ("tp3", "64 attention heads do not divide by TP 3"),
        ("tp16", "16 ranks for 8 GPUs"),
        ("tp4/pp2/41,36", "want 78 layers in all, found 77 (41,36)"),
        ("tp4/pp2/78,0", "want layers on every stage"),
        ("tp4/pp2/20,20,38", "want 2 parts for PP 2, found 3"),
        ("declared", "declares layout: auto"),
    ],
)
def test_a_layout_that_makes_no_sense_is_refused(name: str, says: str) -> None:
    said = plan(GLM, A1, "--max-model-len", "131072", "--layout", name)
    assert said.code == 1 and says in said.err, said.err


def test_objectives_are_taken_from_the_command_line() -> None:
    many = plan(QWEN, H1, "--max-model-len", "8192", "--objective", "throughput", "--json")
    assert many.json["layout"]["dp"] == 2
    target = plan(QWEN, H1, "--max-model-len", "8192", "--objective", '{"context": 8192, "concurrent": 150}', "--json")
    assert (target.json["layout"]["tp"], target.json["objective"]) == (8, "150 requests of 8,192 tokens")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--objective", "fast"), "--objective"),
        (("--objective", "{"), "--objective: want latency, throughput, context or a JSON object"),
        (("--objective", '{"context": 0}'), "--objective"),
        (("--gpu-memory-utilization", "nan"), "--gpu-memory-utilization"),
        (("--gpu-memory-utilization", "2"), "--gpu-memory-utilization"),
        (("--max-model-len", "0"), "--max-model-len"),
        (("--engine", "newest"), "--image"),
        (("--prefill-tokens-per-s", "nan"), "--prefill-tokens-per-s"),
        (("--speculative", "mtp:0"), "--speculative"),
        (("--svg", "/nowhere/plan.svg"), "/nowhere/plan.svg: No such file"),
    ],
)
def test_a_wrong_option_is_named(words: tuple[str, ...], says: str) -> None:
    said = plan(QWEN, H1, *words)
    assert said.code == 1 and says in said.err, said.err


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def changed(**fields: Any) -> str:
    whole = json.loads(GLM.read_text())
    return json.dumps({name: value for name, value in {**whole, **fields}.items() if value is not ...})


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"a": ', "want JSON, found"),
        ("", "want JSON, found"),
        (b"\xff\xfe\x00", "want JSON, found"),
        ("[" * 100_000, "want JSON, found"),
        ("[1]", "want an object, found '[1]'"),
        (changed(num_hidden_layers=...), "num_hidden_layers: want a positive integer, found None"),
        (changed(num_hidden_layers=0), "num_hidden_layers: want a positive integer, found 0"),
        (changed(num_hidden_layers=10**12), "num_hidden_layers: want at most 10000, found 1000000000000"),
        (changed(num_attention_heads=...), "num_attention_heads: want a positive integer"),
        (changed(hidden_size=-5), "hidden_size: want a positive integer, found -5"),
        (changed(hidden_size=...), "what fits is unknown: weights unknown"),
        (changed(hidden_size=10**30), "what fits is unknown: weights unknown"),
        (changed(quantization_config={"quant_method": "odd"}), "quant_method: want one of"),
        (changed(rope_scaling={"type": "yarn", "factor": float("inf")}), "rope_scaling.factor: want a stretch"),
        (changed(index_topk_freq=0), "index_topk_freq: want a positive integer, found 0"),
        (changed(model_type="brand_new"), "model_type 'brand_new' is unknown to the ledger"),
    ],
    ids=range(16),
)
def test_a_wrong_config_is_refused_with_the_field(tmp_path: Path, content: str | bytes, says: str) -> None:
    said = plan(written(tmp_path, "config.json", content))
    assert said.code == 1 and says in said.err, said.err[-2000:]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("memory_mib: 81920", "memory_mib: .nan", "gpus.memory_mib: want an integer >= 1"),
        ("memory_mib: 81920", "memory_mib: -1", "gpus.memory_mib: want an integer >= 1, found -1"),
        ("nvlink_islands", "nvlink_islans", 'did you mean "nvlink_islands"?'),
        ("count: 8", "count: 4", "nvlink_islands: want each GPU 0..3 at most once"),
        ("gpus:", "gpus: 8 #", "gpus: want a mapping"),
        ("address", "[", "want well-formed YAML"),
    ],
)
def test_a_wrong_node_is_refused_with_file_line_and_field(tmp_path: Path, old: str, new: str, says: str) -> None:
    node = written(tmp_path, "n1.yaml", A1.read_text().replace(old, new))
    said = plan(GLM, node)
    assert said.code == 1 and says in said.err and "n1.yaml" in said.err, said.err


def test_a_node_that_nobody_has_bought_yet_needs_no_address(tmp_path: Path) -> None:
    node = written(tmp_path, "wish.yaml", "gpus: {count: 4, model: NVIDIA H200, memory_mib: 143771}\n")
    said = plan(QWEN, node, "--max-model-len", "32768", "--json")
    assert said.code == 0 and {rank["numa"] for rank in said.json["ranks"]} == {"unknown"}


def test_a_missing_file_is_named() -> None:
    assert "nothing.json: No such file" in plan(Path("nothing.json")).err
    assert "nothing.yaml" in plan(GLM, Path("nothing.yaml")).err


def test_what_is_asked_about_must_be_said_and_only_once() -> None:
    for words in ((), ("--config", GLM), ("glm", "--node", A1), ("glm", "--engine", "0.30.0")):
        said = fleet("plan", *words)
        assert said.code == 1 and ("want a SERVICE" in said.err or "only offline" in said.err), said.err


@pytest.fixture(scope="module")
def recorded() -> Any:
    said = recorded_fleet("plan", "glm", "a1", "--json")
    assert said.code == 0, said.err
    return said.json


def test_a_declared_service_is_explained_as_declared(recorded: Any) -> None:
    assert (recorded["service"], recorded["declared"], recorded["layout"]["partition"]) == ("glm", True, [42, 36])
    assert recorded["gates"] == [] and recorded["running"] is None and recorded["predicted_and_logged"] == []


def test_a_service_can_be_planned_from_a_config_that_no_node_holds() -> None:
    said = recorded_fleet("plan", "qwen", "--config", QWEN, "--json")
    assert said.code == 0 and said.json["layout"]["tp"] == 8 and said.json["declared"] is False


MEASURED = """
stages_39_39_gib:
  - {weights: 47.85, available_kv: 21.95, cuda_graph: 0.76}
  - {available_kv: 15.56, cuda_graph: 1.49}
"""
"""What one operator's engine logged, TP 4 x PP 2, every orphaned layer made to compute."""


def test_the_stages_of_one_cut_that_ran_tell_the_best_of_all(tmp_path: Path) -> None:
    measured = str(written(tmp_path, "measured.yaml", MEASURED))
    said = plan(GLM, A1, *AS_RUN, "--boundary-repaired", "--layout", "tp4/pp2", "--measured", measured, "--json")
    assert said.code == 0, said.err
    assert said.json["layout"]["partition"] == [41, 37] and said.json["binding_stage"] == 0
    assert said.json["pool_tokens"] == pytest.approx(729_280, rel=0.01) and said.json["pool_range"] is None


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "want --layout beside it"),
        (("--layout", "tp8"), "want a measurement with 1 stages, found 2"),
    ],
)
def test_a_measurement_of_other_sizes_is_refused(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    measured = str(written(tmp_path, "measured.yaml", MEASURED))
    said = plan(GLM, A1, *AS_RUN, "--measured", measured, *words)
    assert said.code == 1 and says in said.err, said.err


def test_a_checkpoint_folder_without_tensors_is_refused(tmp_path: Path) -> None:
    said = plan(GLM, A1, *AS_RUN, "--checkpoint", str(tmp_path))
    assert said.code == 1 and "want *.safetensors, found none" in said.err


def test_two_layouts_side_by_side() -> None:
    said = fleet("compare", "tp4/pp2/41,37", "tp4/pp2/42,36", "--config", GLM, "--node", A1, *AS_RUN, "--json")
    assert said.code == 0, said.err
    a, b, difference = said.json["a"], said.json["b"], said.json["difference"]
    assert a["layout"]["partition"] == [41, 37] and b["layout"]["partition"] == [42, 36]
    assert difference["pool_tokens"] == b["pool_tokens"] - a["pool_tokens"] < 0
    assert (
        a["boundary_repairs"] == ["stage 1: layers 41 share layer 38's indices, not repaired"] and b["problem"] is None
    )
    assert len(a["stages"]) == len(b["stages"]) == 2 and a["balance"] < b["balance"]


def test_a_comparison_for_people_has_a_column_each() -> None:
    said = recorded_fleet("compare", "declared", "tp8", "--service", "glm", "--on", "a1")
    assert said.code == 0 and all(text in said.out for text in ("TP4/PP2 42,36", "TP8/PP1", "binding stage", "balance"))


def test_a_layout_without_a_partition_is_cut_as_well_as_it_can_be() -> None:
    said = fleet("compare", "tp4/pp2", "tp4/pp2/even", "--config", GLM, "--node", A1, *AS_RUN, "--json")
    assert (said.json["a"]["layout"]["partition"], said.json["b"]["layout"]["partition"]) == ([42, 36], [39, 39])


def test_a_comparison_of_nothing_exits_with_one() -> None:
    said = fleet("compare", "tp4/pp2/1,1", "tp8", "--config", GLM, "--node", A1)
    assert said.code == 1 and "want 78 layers in all" in said.err
