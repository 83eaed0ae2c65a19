"""What an operator reads: gates that fail for one cause, and proofs in a log."""

import io

import pytest
from rich.console import Console

from fleet.drift import Drift
from fleet.verdict import Verdict
from operations.run import Result
from operations.show import print_gates, print_outcome, told_once

NO_LAYOUT = {"node": "h1", "service": "qwen", "status": "fail", "want": "a layout", "got": "none", "unknown": True}
CAUSE = Verdict(gate="layout", node="h1", service="qwen", status="fail", want="one layout", got="no GPU is left")


def lines_of(*verdicts: Verdict) -> list[str]:
    told = io.StringIO()
    print_gates(Console(file=told, width=200), verdicts)
    return [line for line in told.getvalue().splitlines() if line.startswith(("  fail", "waived", "  warn"))]


def no_layout(gate: str, **changes: object) -> Verdict:
    return Verdict.model_validate({"gate": gate, **NO_LAYOUT, **changes})


def test_gates_that_fail_with_the_same_words_are_one_line_and_the_cause_stands_before_them() -> None:
    told = lines_of(no_layout("heads-divide"), no_layout("gpus-fit"), CAUSE, no_layout("partition"))
    assert told == [
        "  fail  layout: want one layout, found no GPU is left on h1/qwen",
        "  fail  heads-divide and 2 more: want a layout, found none on h1/qwen",
    ]


def test_the_table_still_names_every_gate_that_failed() -> None:
    told = io.StringIO()
    print_gates(Console(file=told, width=200), [no_layout("heads-divide"), no_layout("gpus-fit"), CAUSE])
    assert all(f"\n{gate} " in told.getvalue() for gate in ("heads-divide", "gpus-fit", "layout"))
    assert "\n3 fail\n" in told.getvalue()


def test_what_is_said_of_two_nodes_or_found_differently_stays_two_lines() -> None:
    told = lines_of(no_layout("gpus-fit"), no_layout("gpus-fit", node="h2"), no_layout("partition", got="another"))
    assert len(told) == 3


def test_a_failure_stands_before_a_waiver_though_it_could_not_be_decided() -> None:
    waived = CAUSE.model_copy(update={"status": "waived", "reason": "a test of the lab"})
    assert [line.split()[0] for line in lines_of(waived, no_layout("gpus-fit"))] == ["fail", "waived"]


@pytest.mark.parametrize(("terminal", "whole"), [(False, True), (True, False)])
def test_a_long_proof_is_whole_in_a_log_and_cut_on_a_terminal(terminal: bool, whole: bool) -> None:
    told, proof = io.StringIO(), " ".join(f"word{n}" for n in range(60))
    row = Result(node="h1", service="qwen", status="proven", proof=proof)
    print_outcome(Console(file=told, width=120, force_terminal=terminal, no_color=True), [row], "Result")
    assert all(f"word{n}" in told.getvalue() for n in range(60)) is whole


def test_checks_of_an_audit_that_say_the_same_are_one() -> None:
    alike = [Drift(check=name, node="a1", kind="unknown", want="8 GPUs", got="none") for name in ("mig", "clocks")]
    assert [str(drift) for drift in told_once(alike, "check")] == ["mig and 1 more: want 8 GPUs, found none on a1"]
