"""The report of an A/B: Markdown to paste, and one HTML file with plots and without anything from elsewhere."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_HEAD = ("figure", "control", "arm", "difference", "significance", "holds", "limit")
_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ddd}
.NO{color:#b00020;font-weight:600}.yes{color:#1b6e2c}svg{max-width:100%;height:auto}.c{fill:#4878a8}.a{fill:#d98032}
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}td,th{border-color:#444}text{fill:#ddd}}"""


def _rows(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    words = {None: "-", True: "yes", False: "NO"}
    return [
        (
            line["name"],
            line["control"],
            line["arm"],
            line["difference"],
            line["significance"],
            words[line["holds"]],
            line["limit"],
        )
        for line in document["lines"]
    ]


def markdown(document: Mapping[str, Any]) -> str:
    """The verdict as a Markdown page."""
    lines = [
        f"# {document['service']} on {document['node']}: {document['decision']}",
        "",
        f"Control {document['control']}, arm {document['arm']} (`{' '.join(document['data'])}`).",
        "",
        f"| {' | '.join(_HEAD)} |",
        f"|{' --- |' * len(_HEAD)}",
        *(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in _rows(document)),
    ]
    found = [f"- {text}" for text in document["findings"]]
    lines += ["", "Predictions that were more than 2 % off:", "", *found] if found else []
    return "\n".join(lines) + "\n"


def page(document: Mapping[str, Any], control: Mapping[str, Any], arm: Mapping[str, Any]) -> str:
    """The verdict as an HTML page of its own."""
    head = "".join(f"<th>{name}</th>" for name in _HEAD)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in _rows(document))
    title = escape(f"{document['service']} on {document['node']}: {document['decision']}")
    plots = "".join(
        _plot(name, _figures(control, figure), _figures(arm, figure))
        for name, figure in (
            ("TTFT P99 (ms)", "ttft_s"),
            ("TPOT P99 (ms)", "tpot_s"),
            ("output tokens/s", "output_tokens_per_s"),
        )
    )
    found = "".join(f"<li>{escape(text)}</li>" for text in document["findings"])
    found = f"<h2>Predictions that were more than 2 % off</h2><ul>{found}</ul>" if found else ""
    about = f"Control {escape(document['control'])} (blue), arm {escape(document['arm'])} (orange): "
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>"
        f"<p>{about}<code>{escape(' '.join(document['data']))}</code></p>{plots}"
        f"<table><tr>{head}</tr>{body}</table>{found}</html>\n"
    )


def _cell(text: str) -> str:
    kind = f" class={text}" if text in ("NO", "yes") else ""
    return f"<td{kind}>{escape(text)}</td>"


def _figures(row: Mapping[str, Any], figure: str) -> dict[str, float]:
    """Level -> its P99 in ms, or its tokens a second."""
    found: dict[str, float] = {}
    for item in row.get("evidence") or []:
        for level in (item.get("details") or {}).get("levels") or [] if item.get("probe") == "speed" else []:
            name = f"{level['rate']:g}/s" if level.get("rate") else f"{level.get('concurrency')} at once"
            value = level.get(figure)
            if isinstance(value, dict):
                found[name] = float(value["p99"]) * 1000
            elif isinstance(value, int | float):
                found[name] = float(value)
    return found


def _plot(title: str, control: Mapping[str, float], arm: Mapping[str, float]) -> str:
    """Bars of both arms for each level, from zero."""
    names: Sequence[str] = list(dict.fromkeys((*control, *arm)))
    if not names:
        return ""
    most = max((*control.values(), *arm.values())) or 1.0
    bars = []
    for at, name in enumerate(names):
        left = 20 + at * 130
        for offset, kind, values in ((0, "c", control), (46, "a", arm)):
            value = values.get(name)
            if value is None:
                continue
            height = 140 * value / most
            bars.append(f"<rect class={kind} x={left + offset} y={170 - height:.1f} width=42 height={height:.1f} />")
            bars.append(f"<text x={left + offset} y={166 - height:.1f} font-size=11>{value:.3g}</text>")
        bars.append(f"<text x={left} y=188 font-size=12>{escape(name)}</text>")
    width = 40 + 130 * len(names)
    return f"<h2>{escape(title)}</h2><svg viewBox='0 0 {width} 200' width={width} role=img>{''.join(bars)}</svg>"
