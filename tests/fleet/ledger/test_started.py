"""What a start is known by afterwards, and the budget that the next plan takes from it."""

import json

from fleet.ledger.ledger import Ledger
from fleet.ledger.serving import Serving
from fleet.ledger.started import GpuMemory, Started, StartedRank, read_started
from fleet.model.read import read_model

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 8,
    "hidden_size": 1024,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "intermediate_size": 4096,
    "vocab_size": 32000,
}


def ledger() -> Ledger:
    return Ledger(read_model(LLAMA), Serving(engine="0.30.0", pp=2, max_model_len=4096))


def test_a_stage_that_logged_nothing_had_at_least_room_for_the_blocks_of_the_pool() -> None:
    # A layer keeps 2 heads x 128 x 2 (key, value) x 2 bytes = 1,024 bytes a token, a block of 16 tokens 16,384.
    started = Started(ranks=(StartedRank(process="Worker_PP0", available_kv_gib=2.0, weights_gib=1.5),), blocks=10_000)
    budget = started.budget(ledger(), (5, 3))
    assert budget is not None
    assert budget.stages[0].available_kv_gib == 2.0 and budget.stages[0].weights_gib == 1.5
    assert budget.stages[1].available_kv_gib * 2**30 == 10_000 * 3 * 16_384


def test_without_a_log_and_without_blocks_there_is_no_budget() -> None:
    assert Started(ranks=(StartedRank(process="Worker_PP0", available_kv_gib=2.0),)).budget(ledger(), (5, 3)) is None
    assert Started().budget(ledger(), (4, 4)) is None


def test_the_first_rank_of_a_stage_speaks_for_it() -> None:
    ranks = tuple(
        StartedRank(process=f"Worker_PP{pp}_TP{tp}", available_kv_gib=10 * pp + tp + 1)
        for pp in (0, 1)
        for tp in (0, 1)
    )
    budget = Started(ranks=ranks).budget(ledger(), (4, 4))
    assert budget is not None and [stage.available_kv_gib for stage in budget.stages] == [1, 11]


def test_the_tightest_gpu_is_the_one_with_the_least_room() -> None:
    gpus = (GpuMemory(index=0, used_mib=72430, total_mib=81920), GpuMemory(index=4, used_mib=80118, total_mib=81920))
    tightest = Started(gpus=gpus).tightest
    assert tightest is not None and (tightest.index, tightest.margin_mib) == (4, 1802)
    assert Started().tightest is None


def test_a_proof_gives_its_start_back_and_another_text_gives_none() -> None:
    started = Started(ranks=(StartedRank(process="Worker", weights_gib=1.25),), pool_tokens=4096, blocks=256)
    assert read_started(json.dumps({"format": 1, "started": started.model_dump(mode="json")})) == started
    for text in (None, "", "{", "[]", "{}", '{"started": null}', '{"started": {"ranks": 3}}', '{"started": {"x": 1}}'):
        assert read_started(text) is None, text
