"""An explanation as a picture: one bar a stage, with what takes the memory of its GPUs."""

import xml.etree.ElementTree as xml

from cli.asking import Asked
from cli.plan_text import parts, where
from fleet.layouts.explain import Explanation

GIB = 2**30
WIDTH, BAR, TOP, STEP, LEFT = 900, 860, 88, 58, 20
COLOURS = {"weights": "#4169b0", "engine": "#9a5fb0", "KV": "#4c9a5b", "left to others": "#d5d5d5"}


def picture(answers: list[tuple[Asked, Explanation]]) -> str:
    """An SVG document of all of them, one below the other."""
    heights = [TOP + STEP * max(len(found.capacity.stages) if found.capacity else 1, 1) for _, found in answers]
    root = xml.Element(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {sum(heights) + 30}",
        width=str(WIDTH),
        height=str(sum(heights) + 30),
        **{"font-family": "sans-serif", "font-size": "13"},
    )
    xml.SubElement(root, "rect", width="100%", height="100%", fill="white")
    top = 0
    for (asked, found), height in zip(answers, heights, strict=True):
        _one(root, top, asked, found)
        top += height
    _legend(root, top + 10)
    return xml.tostring(root, encoding="unicode") + "\n"


def _text(root: xml.Element, x: float, y: float, text: str, **style: str) -> None:
    xml.SubElement(root, "text", x=f"{x:g}", y=f"{y:g}", **style).text = text


def _one(root: xml.Element, top: int, asked: Asked, found: Explanation) -> None:
    held = found.capacity
    _text(root, LEFT, top + 24, f"{asked.service} on {asked.node}: {found.candidate}", **{"font-weight": "bold"})
    if held is None:
        _text(root, LEFT, top + 46, f"memory unknown: {found.unknown}")
        return
    resident = f"{found.request.resident} requests of {found.request.tokens:,} tokens resident"
    _text(root, LEFT, top + 46, f"pool {held.pool:,} tokens, {resident}")
    _text(root, LEFT, top + 66, held.source, fill="#555")
    for stage in held.stages:
        y, x = top + TOP + STEP * stage.stage, float(LEFT)
        for name, size in parts(stage, held).items():
            width = min(BAR * size / held.gpu_bytes, LEFT + BAR - x)
            if width > 0:
                bar = xml.SubElement(
                    root, "rect", x=f"{x:.1f}", y=str(y), width=f"{width:.1f}", height="22", fill=COLOURS[name]
                )
                xml.SubElement(bar, "title").text = f"{name}: {size / GIB:.2f} GiB"
                x += width
        last = stage.first + stage.layers - 1
        binds = ", binds" if len(held.stages) > 1 and stage.stage == held.binding_stage else ""
        place = f"{where(found, stage.stage)}, layers {stage.first}-{last}"
        figures = f"weights {stage.weights / GIB:.1f}, KV {stage.available / GIB:.1f} GiB, {stage.tokens:,} tokens"
        _text(root, LEFT, y + 38, f"stage {stage.stage}, {place}: {figures}{binds}")


def _legend(root: xml.Element, y: int) -> None:
    x = LEFT
    for name, colour in COLOURS.items():
        xml.SubElement(root, "rect", x=str(x), y=str(y - 10), width="12", height="12", fill=colour)
        _text(root, x + 18, y, name)
        x += 40 + 8 * len(name)
