"""Every probe against the stand-in: a good one passes them all, each fault is caught by the probe that looks for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from wire import reply, serving

from fleet.proof.proportion import chance_of_missing
from lab.standin.process import running
from probes.asking.load import load
from probes.evidence import Endpoint, Evidence, Limits

SUITE = ("smoke", "tools", "needle", "degeneration", "quality")
FLAGS = ("--served-model-name", "glm", "--enable-auto-tool-choice", "--max-model-len", "4096")
QUICK = Limits(total_s=20, lengths=(600, 2000))


@contextmanager
def engine(model: Path, fault: str = "", seed: int = 1) -> Iterator[Endpoint]:
    environ = {"VLLM_STANDIN_FAULT": fault, "VLLM_STANDIN_SEED": str(seed), "VLLM_STANDIN_TOKENS_PER_S": "0"}
    with running(model, *FLAGS, environ=environ) as process:
        yield Endpoint(url=process.url, model="glm")


def look(name: str, endpoint: Endpoint, limits: Limits = QUICK) -> Evidence:
    evidence = load(name)(endpoint, limits)
    assert evidence.probe == name
    assert evidence.seconds < limits.total_s + 1, "no probe goes past its deadline"
    return evidence


def test_a_good_engine_passes_the_whole_suite_again_and_again(model: Path) -> None:
    """Two hundred times were run by hand, without a false alarm: docs/proof.md."""
    with engine(model) as endpoint:
        found = [look(name, endpoint) for _ in range(4) for name in SUITE]
    assert [str(each) for each in found if not each.passed] == []


@pytest.mark.parametrize(
    ("fault", "probe", "status", "says"),
    [
        ("loop:p=0.2", "degeneration", "degraded", "characters are "),
        ("ramble:p=0.2", "degeneration", "degraded", "did not end within 256 tokens"),
        ("loop", "smoke", "failed", "a loop"),
        ("dull", "quality", "degraded", "wrong now: "),
        ("dull:p=0.3", "needle", "degraded", "lost: "),
        ("bad-arguments", "tools", "failed", "get_temperature("),
        ("ignore-stop", "smoke", "failed", "'1 2 3"),
        ("ignore-max-tokens", "smoke", "failed", "tokens"),
        ("absurd-usage", "smoke", "failed", "1000000000"),
        ("completion-500", "smoke", "failed", "HTTP 500"),
        ("first-completion-500", "smoke", "failed", "HTTP 500"),
        ("busy", "smoke", "failed", "HTTP 503: the engine is overloaded"),
        ("throttle:p=0.2", "degeneration", "failed", "HTTP 429"),
        ("not-json", "smoke", "failed", "{not JSON"),
        ("cut:p=0.1", "degeneration", "failed", "the connection broke"),
        ("cut", "quality", "failed", "the connection broke"),
        ("not-json", "needle", "failed", "{not JSON"),
        ("crash-after:9", "degeneration", "failed", "connection"),
    ],
)
def test_a_fault_is_caught(model: Path, fault: str, probe: str, status: str, says: str) -> None:
    with engine(model, fault) as endpoint:
        evidence = look(probe, endpoint, QUICK.model_copy(update={"max_tokens": 256}))
    assert (evidence.status, evidence.passed) == (status, False), str(evidence)
    assert says in evidence.found


@pytest.mark.parametrize("probe", SUITE)
def test_an_engine_that_hangs_is_told_by_the_deadline(model: Path, probe: str) -> None:
    with engine(model, "hang") as endpoint:
        evidence = look(probe, endpoint, Limits(total_s=0.7))
    assert evidence.status == "failed"
    assert evidence.found


@pytest.mark.parametrize("probe", SUITE)
def test_a_server_that_is_no_engine_is_told(probe: str) -> None:
    with serving(lambda connection, _: connection.sendall(reply("<html>", kind="text/html"))) as endpoint:
        evidence = look(probe, endpoint, Limits(total_s=5))
    assert evidence.status == "failed"
    assert "<html>" in evidence.found


@pytest.mark.parametrize("probe", SUITE)
def test_nobody_there_is_told(probe: str) -> None:
    with serving(lambda connection, _: None) as endpoint:
        pass
    evidence = look(probe, endpoint, Limits(total_s=5))
    assert evidence.status == "failed"
    assert "no connection" in evidence.found


@pytest.mark.parametrize("probe", SUITE)
def test_a_model_name_that_is_not_served_is_told(model: Path, probe: str) -> None:
    with engine(model) as endpoint:
        evidence = look(probe, endpoint.model_copy(update={"model": "other"}))
    assert evidence.status == "failed"
    assert "model other at" in evidence.wanted + evidence.found
    assert "glm" in evidence.found


def test_the_degeneration_run_counts_and_bounds(model: Path) -> None:
    with engine(model, "loop:p=0.2") as endpoint:
        evidence = look("degeneration", endpoint, QUICK.model_copy(update={"trials": 60, "max_tokens": 200}))
    details = evidence.details
    assert details["trials"] == 60
    assert 4 <= details["bad"] <= 24
    assert details["low"] < 0.2 < details["high"]
    assert details["chance_to_miss_a_fifth"] == pytest.approx(chance_of_missing(60, 0.2))
    assert len(details["examples"]) == 3


def test_a_baseline_that_had_bad_answers_itself_makes_the_same_rate_no_fault(model: Path) -> None:
    limits = QUICK.model_copy(update={"max_tokens": 200})
    with engine(model, "loop:p=0.2") as endpoint:
        before = look("degeneration", endpoint, limits)
        again = look("degeneration", endpoint, limits.model_copy(update={"before": before}))
    with engine(model, "loop:p=0.7") as endpoint:
        worse = look("degeneration", endpoint, limits.model_copy(update={"before": before}))
    assert before.degraded
    assert again.passed, str(again)
    assert worse.degraded
    assert worse.details["chance_if_as_before"] < 0.05


def test_answers_that_end_later_than_those_of_the_baseline_are_a_fault_though_each_ends(model: Path) -> None:
    """The same engine twice: beside itself it is sound, beside one that needed half the words it is not."""
    with engine(model) as endpoint:
        before = look("degeneration", endpoint)
        again = look("degeneration", endpoint, QUICK.model_copy(update={"before": before}))
        half = [max(1, tokens // 2) for tokens in before.details["tokens"]]
        shorter = before.model_copy(update={"details": {**before.details, "tokens": half}})
        longer = look("degeneration", endpoint, QUICK.model_copy(update={"before": shorter}))
    assert len(before.details["tokens"]) == 40 and before.details["length"] is None
    assert again.passed and again.details["length"]["chance"] == 1
    assert longer.degraded and longer.details["bad"] == 0
    assert "TOO LONG: median length" in longer.found
    assert longer.details["length"]["longer"] and longer.details["length"]["chance"] < 0.001


def test_what_another_probe_found_is_no_baseline(model: Path) -> None:
    with engine(model) as endpoint:
        other = look("quality", endpoint)
        evidence = look("degeneration", endpoint, QUICK.model_copy(update={"before": other}))
    assert evidence.details["before"] is None


def test_quality_tells_which_items_were_right_before(model: Path) -> None:
    with engine(model) as endpoint:
        before = look("quality", endpoint)
    with engine(model, "dull") as endpoint:
        evidence = look("quality", endpoint, QUICK.model_copy(update={"before": before}))
    assert evidence.degraded
    assert evidence.found.startswith("0 of 12 right; wrong now: add, ")


def test_needles_are_told_by_depth_and_by_tokens_of_the_engine(model: Path) -> None:
    with engine(model) as endpoint:
        evidence = look("needle", endpoint, Limits(total_s=20))
    rows = evidence.details["needles"]
    assert len(rows) == 9
    assert {row["depth"] for row in rows} == {"5%", "50%", "95%"}
    assert all(0.7 * row["wanted_tokens"] < row["tokens"] <= row["wanted_tokens"] for row in rows), rows


def test_an_engine_without_tools_says_which_flag_it_wants(model: Path) -> None:
    with running(model, "--served-model-name", "glm") as process:
        evidence = look("tools", Endpoint(url=process.url, model="glm"))
    assert evidence.status == "failed"
    assert "--enable-auto-tool-choice" in evidence.found


def test_progress_is_told(model: Path) -> None:
    lines: list[str] = []
    with engine(model) as endpoint:
        load("degeneration")(endpoint, QUICK, lines.append)
        load("smoke")(endpoint, QUICK, lines.append)
    assert "40 of 40 answers" in lines
    assert any(line.startswith("responses: ") for line in lines)


@pytest.mark.parametrize("probe", [*SUITE, "speed"])
def test_a_short_context_is_not_asked_for_more_than_it_has(model: Path, probe: str) -> None:
    flags = (*FLAGS[:-1], "1000")
    with running(model, *flags, environ={"VLLM_STANDIN_TOKENS_PER_S": "0"}) as process:
        evidence = look(probe, Endpoint(url=process.url, model="glm"), Limits(total_s=30, concurrency=(2,)))
    assert evidence.passed, str(evidence)
