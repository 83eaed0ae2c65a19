"""One operator's measurements: from the two stages of one cut, the pools of the others."""

import pytest
from engine_facts import config, needs_engine_facts, pairs

from fleet.ledger.budget import Measured, read_measured
from fleet.ledger.cold import Cold
from fleet.ledger.ledger import Ledger, Pool
from fleet.ledger.serving import Draft, Repair, Serving
from fleet.model.read import read_model
from fleet.model.shape import GIB, MIB

pytestmark = needs_engine_facts


def ledger(repair: Repair = "all", tp: int = 4, pp: int = 2) -> Ledger:
    serving = Serving(
        engine="0.30",
        tp=tp,
        pp=pp,
        kv_cache_dtype="fp8_ds_mla",
        draft=Draft(method="mtp"),
        max_model_len=524288,
        repair=repair,
    )
    return Ledger(read_model(config("glm-5.2-w4a16")), serving)


def measured() -> Measured:
    return read_measured(pairs())


def cut_at(first: int, counted: Ledger) -> Pool:
    budget = measured()
    room = (budget.available(counted, 0, 0, first), budget.available(counted, 1, first, 78))
    return counted.pool((first, 78 - first), room)


@pytest.mark.parametrize(("first", "pool", "binding"), [(39, 597_760, 1), (41, 729_280, 0)])
def test_a_cut_follows_from_the_stages_of_another_within_a_thousandth(first: int, pool: int, binding: int) -> None:
    found = cut_at(first, ledger())
    assert found.tokens == pytest.approx(pool, rel=0.001)
    assert found.binding_stage == binding


def test_the_cut_that_the_operator_found_by_trying_is_the_best_of_all() -> None:
    counted = ledger()
    assert max(range(1, 78), key=lambda first: cut_at(first, counted).tokens) == 41


def test_scaling_one_stage_as_the_operator_did_names_another_stage_and_is_four_percent_off() -> None:
    scaled = next(p for p in pairs()["pools"] if p.get("partition") == [41, 37])["operator_predicted"]
    assert abs(scaled / 729_280 - 1) > 0.04
    assert cut_at(41, ledger()).stage_tokens[1] > cut_at(41, ledger()).stage_tokens[0]


def test_repairing_only_the_first_orphan_saves_two_indexers_on_stage_1() -> None:
    every, first, none = (ledger(repair) for repair in ("all", "first", "none"))
    assert [counted.indexers(1, 39, 78) for counted in (every, first, none)] == [13, 11, 10]
    assert every.bytes_per_token(1, 39, 78) / first.bytes_per_token(1, 39, 78) == pytest.approx(1.0095, abs=0.0001)


def test_one_stage_over_eight_gpus_has_the_pool_that_was_logged() -> None:
    whole = ledger(tp=8, pp=1)
    logged = next(p for p in pairs()["pools"] if p["tp"] == 8)
    found = whole.tokens(0, 0, 78, round(logged["available_kv_gib"] * GIB))
    assert found == pytest.approx(logged["pool"], rel=0.001)


def test_the_checkpoint_weighs_what_the_operator_found() -> None:
    model, stated = read_model(config("glm-5.2-w4a16")), pairs()["model"]
    assert model.layer_stored is not None and model.draft_stored is not None
    assert model.layer_stored / MIB == pytest.approx(stated["moe_layer_mib"], rel=0.001)
    assert model.draft_stored / MIB == pytest.approx(stated["mtp_layer_mib"], rel=0.001)
    assert model.stored / GIB == pytest.approx(stated["checkpoint_gib"], rel=0.001)


def test_the_weights_of_stage_0_are_what_the_engine_loaded() -> None:
    loaded = pairs()["stages_39_39_gib"][0]["weights"]
    assert ledger().weights(0, 0, 39) / GIB == pytest.approx(loaded, rel=0.02)


@pytest.mark.parametrize("stage", [0, 1])
def test_the_cold_range_holds_what_each_stage_had(stage: int) -> None:
    """The work space of the indexers, 2.6 GiB at this length, is a term of its own."""
    counted, gpu = ledger(), pairs()["gpu"]
    cold = Cold(
        memory_gib=gpu["total_gib"],
        utilization=gpu["memory_utilization"],
        max_num_seqs=256,
        hidden=6144,
        vocabulary=154880,
    )
    low, high = cold.range(counted, stage, 39 * stage, 39 * stage + 39)
    assert low / GIB <= pairs()["stages_39_39_gib"][stage]["available_kv"] <= high / GIB
    assert counted.workspace(stage, 39 * stage, 39 * stage + 39) == 40 * 132 * 524288


def test_what_the_operator_loaded_and_what_is_counted_agree() -> None:
    assert measured().disagreements(ledger()) == ()
    assert measured().disagreements(ledger(), beyond=0.001) != ()
