"""The HTML report of an audit: it is whole, escapes what nodes print, and a real browser shows it as it should."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser

from fleet.audit import Audit
from fleet.drift import Drift
from fleet.nodes.nvidia import Gpu, Nvidia
from fleet.verdict import Verdict
from templates.drawing import draw
from templates.report import page
from tests.fleet.builders import facts, gpus, node, view
from tests.fleet.cases import case, unit, whole

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'&{{ 7*7 }}</pre></style>"
PHONE = 360


def hostile() -> Audit:
    """One node with findings whose every text is hostile, one that is silent, one that is clean."""
    lost = Nvidia(gpus=(*gpus(7), Gpu(index=7, problem=HOSTILE)), driver=HOSTILE)
    odd = case(told={"nvidia": lost, "os": HOSTILE, "kernel": HOSTILE}, lies={"unit": unit(sub=HOSTILE), "proof": None})
    text = {"want": HOSTILE, "got": HOSTILE, "remedy": HOSTILE, "diff": (f"-{HOSTILE}", f"+{'x' * 300}", " same")}
    drifts = (
        Drift(check="files", node="a1", service="glm", **text),
        Drift(check="reachable", node="z9", kind="unknown", **text),
        Drift(check="one-image", node="all nodes", **text),
    )
    verdicts = (
        Verdict(gate="gpu-count", node="a1", status="pass"),
        Verdict(gate="xid", node="a1", status="fail", want=HOSTILE, got=HOSTILE),
    )
    return whole(odd, drifts=drifts, unread={"z9": HOSTILE}, verdicts=verdicts, fleet=HOSTILE[:40])


def history(found: Audit) -> list[dict[str, object]]:
    older = {**found.document(), "when": HOSTILE, "drifts": []}
    return [older, found.document()]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = hostile()
    path = tmp_path_factory.mktemp("report") / "audit.html"
    path.write_text(page(found, history(found)), encoding="utf-8")
    return path


def test_nothing_that_a_node_printed_becomes_markup(written: Path) -> None:
    text = written.read_text()
    assert "onerror=alert(1)&gt;" in text and "<img" not in text
    assert text.count("<script>") == 1 and "{{ 7*7 }}" in text and "49" not in re.findall(r"want</span> (\S+)", text)


def test_the_page_names_nothing_outside_of_itself(written: Path) -> None:
    text = written.read_text()
    assert not re.search(r'(?:src|href)="(?!#|data:)', text) and "@import" not in text and "url(" not in text


def test_a_browser_renders_it_without_a_complaint_and_asks_nobody(browser: Browser, written: Path) -> None:
    browser.problems.clear()
    browser.requested.clear()
    browser.open(written)
    assert browser.ask("document.querySelectorAll('details.node').length") == 2
    assert browser.ask("document.querySelectorAll('.panels svg rect.cell').length") == 8
    assert browser.ask("document.title").startswith("2 drifts") or "drift" in browser.ask("document.title")
    assert browser.ask("document.querySelectorAll('img, iframe, object').length") == 0
    assert browser.problems == [] and [url for url in browser.requested if not url.startswith("data:")] == [
        written.as_uri()
    ]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_phone_shows_it_without_scrolling_sideways(browser: Browser, written: Path, dark: bool) -> None:
    browser.open(written, width=PHONE, height=740, dark=dark)
    browser.ask("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert browser.ask("document.documentElement.scrollWidth") <= PHONE
    small = "[...document.querySelectorAll('p, dd, dt, td, summary, h1, h2, h3')]"
    assert browser.ask(f"Math.min(...{small}.map(one => parseFloat(getComputedStyle(one).fontSize)))") >= 13
    shrunk = "one => one.getBoundingClientRect().width / one.width.baseVal.value"
    drawn = f"[...document.querySelectorAll('.panels svg')].map({shrunk})"
    assert browser.ask(f"Math.min(...{drawn})") > 0.75, "the drawing is not shrunk until it cannot be read"


def test_dark_mode_has_light_words_on_a_dark_page(browser: Browser, written: Path) -> None:
    def lightness(of: str) -> float:
        color = browser.ask(f"getComputedStyle(document.body).{of}")
        return sum(map(int, re.findall(r"\d+", color)[:3])) / 3

    seen = {}
    for dark in (False, True):
        browser.open(written, dark=dark)
        seen[dark] = (lightness("backgroundColor"), lightness("color"))
    assert seen[False][0] > 200 > seen[False][1] and seen[True][0] < 50 < 200 < seen[True][1]


CONTRAST = (Path(__file__).parent / "contrast.js").read_text()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(browser: Browser, written: Path, dark: bool) -> None:
    browser.open(written, dark=dark)
    browser.ask("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert browser.ask(CONTRAST) >= 4.5, "WCAG 2, AA"


def test_it_is_read_by_keyboard(browser: Browser, written: Path) -> None:
    browser.open(written)
    browser.press("Tab")
    assert browser.ask("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(40):
        browser.press("Tab")
        reached.add(tag := browser.ask("document.activeElement.tagName"))
        if tag == "BODY":
            break
        assert browser.ask("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert {"INPUT", "BUTTON", "A", "SUMMARY", "PRE"} <= reached
    browser.ask("document.querySelector('details.node summary').focus()")
    was = browser.ask("document.querySelector('details.node').open")
    browser.press("Enter", "\r")
    assert browser.ask("document.querySelector('details.node').open") != was


def test_nodes_can_be_filtered_by_state_and_name(browser: Browser, written: Path) -> None:
    shown = (
        "[...document.querySelectorAll('details.node')].filter(one => !one.hidden).map(one => one.dataset.node).join()"
    )
    browser.open(written)
    assert browser.ask(shown) == "a1,z9"
    browser.ask("document.querySelector('button[value=unknown]').click()")
    assert browser.ask(shown) == "z9"
    browser.ask("document.querySelector('button[value=all]').click()")
    browser.ask("{ const f = document.querySelector('input'); f.value = 'A1'; f.dispatchEvent(new Event('input')); }")
    assert browser.ask(shown) == "a1" and browser.ask("document.querySelector('#shown').textContent") == "1 shown"


def test_a_clean_fleet_of_sixty_is_one_page(browser: Browser, tmp_path: Path) -> None:
    one, seen = case()
    names = [f"a{number}" for number in range(60)]
    found = whole((one, seen), unread={name: "no answer" for name in names})
    path = tmp_path / "many.html"
    path.write_text(page(found))
    browser.problems.clear()
    browser.open(path, width=PHONE)
    assert browser.ask("document.querySelectorAll('.tiles li').length") == 61 - names.count("a1")
    assert browser.ask("document.documentElement.scrollWidth") <= PHONE and browser.problems == []


def test_the_drawing_shows_islands_numa_ranks_and_what_is_missing() -> None:
    one, seen = case()
    drawing = draw(seen, [one])
    assert [panel.title for panel in drawing.panels] == ["NUMA 0 · CPU 0-63", "NUMA 1 · CPU 64-127"]
    assert drawing.islands == ("A: GPU 0, 1", "B: GPU 2, 3", "C: GPU 4, 5", "D: GPU 6, 7")
    cells = {cell.gpu: cell for panel in drawing.panels for cell in panel.cells}
    assert cells[0].lines == ("rank 0 · st 0", "glm") and cells[7].lines == ("rank 7 · st 1", "glm")
    assert cells[0].color != cells[7].color and all(cell.state == "ok" for cell in cells.values())
    assert [len(bus.taps) for panel in drawing.panels for bus in panel.buses] == [2, 2, 2, 2]
    few = view(node(), told=facts(nvidia=Nvidia(gpus=gpus(6))))
    states = {cell.gpu: cell.state for panel in draw(few, []).panels for cell in panel.cells}
    assert (states[5], states[6], states[7]) == ("ok", "missing", "missing")


def test_islands_that_cross_have_lines_of_their_own() -> None:
    crossing = view(node(nvlink_islands=((0, 2), (1, 3)), numa=(0,) * 8), told=None)
    (panel,) = draw(crossing, []).panels
    assert len({bus.y for bus in panel.buses}) == 2 and len(panel.cells) == 8
