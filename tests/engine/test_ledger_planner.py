"""The ledger agrees with the engine's own planner on blocks and printed tokens, exactly, on a grid of layouts."""

import itertools
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleet.ledger.ledger import Ledger
from fleet.ledger.serving import Draft, Serving
from fleet.model.read import read_model
from lab.engine.interpreter import Interpreter

pytestmark = pytest.mark.engine
PLANNER = Path(__file__).with_name("planner.py")

HEADS = {"num_attention_heads": 64, "head_dim": 128, "hidden_size": 512}


def kinds(layers: int, every: int, other: str, full_first: bool = False) -> list[str]:
    at = 0 if full_first else every - 1
    return ["full_attention" if index % every == at else other for index in range(layers)]


MODELS: dict[str, dict[str, Any]] = {
    "dense": {**HEADS, "model_type": "llama", "num_hidden_layers": 30, "num_key_value_heads": 8},
    "few heads": {**HEADS, "model_type": "qwen2", "num_hidden_layers": 28, "num_key_value_heads": 2},
    "mla": {
        **HEADS,
        "model_type": "deepseek_v3",
        "num_hidden_layers": 27,
        "num_key_value_heads": 64,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "num_nextn_predict_layers": 1,
    },
    "half full": {
        **HEADS,
        "model_type": "gpt_oss",
        "num_hidden_layers": 36,
        "num_key_value_heads": 8,
        "sliding_window": 128,
        "layer_types": kinds(36, 2, "sliding_attention"),
    },
    "one of six full": {
        **HEADS,
        "model_type": "gemma3_text",
        "num_hidden_layers": 62,
        "num_key_value_heads": 16,
        "sliding_window": 1024,
        "layer_types": kinds(62, 6, "sliding_attention"),
    },
    "nearly balanced": {
        **HEADS,
        "model_type": "gpt_oss",
        "num_hidden_layers": 25,
        "num_key_value_heads": 8,
        "sliding_window": 128,
        "layer_types": kinds(25, 2, "sliding_attention", full_first=True),
    },
    "chunked": {
        **HEADS,
        "model_type": "llama4_text",
        "num_hidden_layers": 48,
        "num_key_value_heads": 8,
        "attention_chunk_size": 8192,
        "layer_types": kinds(48, 4, "chunked_attention"),
    },
    "linear": {
        **HEADS,
        "model_type": "qwen3_next",
        "num_hidden_layers": 48,
        "num_key_value_heads": 2,
        "layer_types": kinds(48, 4, "linear_attention"),
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "mamba_ssm_dtype": "float32",
        "mtp_num_hidden_layers": 1,
    },
}
MODELS["dsa"] = {
    **MODELS["mla"],
    "model_type": "glm_moe_dsa",
    "num_hidden_layers": 78,
    "index_topk": 2048,
    "index_head_dim": 128,
    "index_topk_freq": 4,
    "index_skip_topk_offset": 3,
}
MODELS["every index"] = {
    key: value for key, value in MODELS["dsa"].items() if not key.startswith(("index_topk_f", "index_skip"))
}


def cut(layers: int, pp: int, lean: int) -> list[int]:
    """Uneven cuts too: `lean` layers more on the first stage than on the last."""
    parts = [layers // pp] * pp
    parts[0] += lean
    parts[-1] += layers - sum(parts)
    return parts


def cases() -> list[dict[str, Any]]:
    found = []
    for (name, model), pp, tp, length, drafting in itertools.product(
        MODELS.items(), (1, 2, 4), (1, 4, 8), (4096, 131072), (False, True)
    ):
        layers = model["num_hidden_layers"]
        has_draft = bool(model.get("num_nextn_predict_layers") or model.get("mtp_num_hidden_layers"))
        if drafting and not has_draft:
            continue
        sparse = "index_head_dim" in model
        for lean, dtype in itertools.product(
            (0, 2) if pp > 1 else (0,), ("auto", "fp8_ds_mla") if sparse else ("auto",)
        ):
            found.append(
                {
                    "name": name,
                    "config": model,
                    "tp": tp,
                    "pp": pp,
                    "dcp": 4 if sparse and tp == 8 and pp == 1 else 1,
                    "partition": cut(layers, pp, lean),
                    "dtype": dtype,
                    "block": 64 if "kv_lora_rank" in model else 16,
                    "length": length,
                    "batched": 2048,
                    "drafts": int(drafting),
                    "k": 3 if drafting else 0,
                    "available": [(60 + 7 * stage) * 10**9 + 12345 for stage in range(pp)],
                }
            )
    return found


def ledger_of(case: dict[str, Any]) -> Ledger:
    serving = Serving(
        engine="0.30",
        tp=case["tp"],
        pp=case["pp"],
        dcp=case["dcp"],
        kv_cache_dtype=case["dtype"],
        draft=Draft(method="mtp", k=case["k"]) if case["drafts"] else None,
        max_model_len=case["length"],
        max_num_batched_tokens=case["batched"],
    )
    return Ledger(read_model(case["config"]), serving)


def ours(case: dict[str, Any]) -> dict[str, Any]:
    ledger = ledger_of(case)
    ends = list(itertools.accumulate(case["partition"], initial=0))
    blocks = [ledger.blocks(stage, ends[stage], ends[stage + 1], room) for stage, room in enumerate(case["available"])]
    return {"blocks": min(blocks), "tokens": ledger.printed(min(blocks)), "groups": len(ledger.groups)}


def cases_of(engine: Interpreter) -> list[dict[str, Any]]:
    """From 0.33 on the block of a linear hybrid also depends on kernels that are not there on a CPU."""
    return [case for case in cases() if case["name"] != "linear" or engine.version == "0.30.0"]


def label(case: dict[str, Any]) -> str:
    sizes = f"tp {case['tp']} pp {case['pp']} dcp {case['dcp']} {case['partition']}"
    return f"{case['name']} {sizes} {case['dtype']} {case['length']} k {case['k']}"


@pytest.fixture(scope="module", params=["0.30.0", "0.33.0"])
def engine(request: pytest.FixtureRequest, engine_of: Callable[[str], Interpreter]) -> Interpreter:
    """The version that is installed whole, and the newest, whose planner moved."""
    return engine_of(request.param)


def ask(engine: Interpreter, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [engine.python, PLANNER],
        input=json.dumps(asked),
        env=engine.environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    told = [line for line in done.stdout.splitlines() if line.startswith("PLANNED ")]
    assert told, f"{done.stdout[-2000:]}{done.stderr[-4000:]}"
    answers = json.loads(told[-1].removeprefix("PLANNED "))
    assert isinstance(answers, list)
    return answers


def test_blocks_groups_and_printed_tokens_are_the_planners_on_every_layout_of_the_grid(engine: Interpreter) -> None:
    asked = cases_of(engine)
    answers = ask(engine, asked)
    assert len(asked) == len(answers) > 200
    wrong = []
    for case, answer in zip(asked, answers, strict=True):
        assert "refused" not in answer, f"{label(case)}: {answer}"
        mine = ours(case)
        if mine != {key: answer[key] for key in mine}:
            wrong.append(f"{label(case)}: the engine plans {answer}, the ledger {mine}")
    assert not wrong, "\n".join(wrong[:40]) + f"\n{len(wrong)} of {len(asked)}"


def test_the_planner_refuses_to_start_exactly_where_the_pool_holds_no_request(engine: Interpreter) -> None:
    """One block is held back: at the blocks of one request it is refused, at one more it starts."""
    asked = []
    for case in cases_of(engine):
        if case["pp"] == 1 and case["length"] == 4096 and case["dcp"] == 1:
            ledger, end = ledger_of(case), case["partition"][0]
            size = ledger.block_bytes(0, 0, end)
            asked += [{**case, "available": [size * (ledger.blocks_per_request + more)]} for more in (0, 1)]
    answers = ask(engine, asked)
    assert len(answers) > 20
    for case, answer in zip(asked, answers, strict=True):
        ledger = ledger_of(case)
        blocks = ledger.blocks(0, 0, case["partition"][0], case["available"][0])
        assert ledger.starts(blocks) == ("refused" not in answer), f"{label(case)}: {answer}"
