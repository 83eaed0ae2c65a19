"""An audit and a plan tell what was predicted beside what was logged, and a wrong prediction as a finding, no drift."""

import io

import pytest
from rich.console import Console

from cli.asking import Asked
from cli.plan_document import document
from cli.plan_text import show
from fleet.audit import Audit
from fleet.drift import Case
from fleet.layouts.capacity import question_about
from fleet.layouts.explain import explain
from fleet.layouts.sizes import Sizes
from fleet.releases.current import side_by_side
from fleet.releases.difference import compare
from operations.show_audit import print_audit
from templates.render import render_release
from templates.report import page
from tests.fleet.builders import facts, node, view
from tests.fleet.cases import whole
from tests.fleet.layouts.test_capacity import cut, glm, running

POOL = "pool, tokens: predicted 562,752, logged 597,760 (-5.9%)"
WEIGHTS = "weights of stage 0, GiB: predicted 47.85, logged 47.85 (+0.0%)"


@pytest.fixture(scope="module")
def audit() -> Audit:
    plan = glm(running(**cut(39, 39)), **cut(41, 37))
    release = render_release(plan)
    case = Case(plan=plan, release=release, change=compare(plan, release, {}))
    return whole((case, view(node(), plan.service, told=facts())))


def printed(audit: Audit) -> str:
    text = io.StringIO()
    print_audit(Console(file=text, width=240), audit, 20)
    return text.getvalue()


def test_an_audit_prints_every_figure_and_each_prediction_that_is_off(audit: Audit) -> None:
    said = printed(audit)
    assert f" memory  a1/glm: {WEIGHTS}; " in said
    assert f"finding  a1/glm: {POOL}: want within 2%" in said
    assert f"finding  a1/glm: {WEIGHTS}" not in said
    assert [said.count(figure) for figure in (WEIGHTS, "KV of stage 0, GiB", POOL)] == [1, 1, 1]


def test_the_json_and_the_page_have_them_too(audit: Audit) -> None:
    told = audit.document()
    figures = {one["figure"]: one for one in told["nodes"][0]["services"][0]["predicted_and_logged"]}
    assert figures["pool, tokens"] == {
        "figure": "pool, tokens",
        "predicted": 562_752,
        "logged": 597_760,
        "off": pytest.approx(-0.05857, abs=1e-4),
        "finding": True,
    }
    assert not figures["weights of stage 0, GiB"]["finding"]
    assert f"a1/glm: {POOL}: want within 2%" in told["findings"] and len(told["findings"]) == 3
    html = page(audit)
    assert WEIGHTS in html and f"{POOL}: want within 2%" in html


def test_a_wrong_prediction_is_no_drift(audit: Audit) -> None:
    assert not any("predicted" in str(drift) for drift in audit.drifts)


def test_where_nothing_was_logged_nothing_is_told() -> None:
    plan = glm(running(None, **cut(39, 39)), **cut(41, 37))
    release = render_release(plan)
    silent = whole((Case(plan=plan, release=release, change=compare(plan, release, {})), view(node(), told=facts())))
    assert silent.findings == () and "memory" not in printed(silent)


def test_a_plan_prints_every_figure_and_each_prediction_that_is_off() -> None:
    plan = glm(running(**cut(39, 39)), **cut(41, 37))
    question = question_about(plan)
    assert question is not None
    asked = Asked("glm", "a1", question, running="TP4/PP2 39,39", figures=side_by_side(plan))
    found = explain(question, (Sizes(tp=4, pp=2), (41, 37)))
    text = io.StringIO()
    show(Console(file=text, width=240), asked, found, everything=False)
    assert f"    {WEIGHTS}\n" in text.getvalue()
    assert f"    finding {POOL}: want within 2%\n" in text.getvalue()
    told = {one["figure"]: one["finding"] for one in document(asked, found)["predicted_and_logged"]}
    assert told["pool, tokens"] and not told["weights of stage 0, GiB"]
