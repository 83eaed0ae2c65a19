"""Pool, context and memory of both arms, as measured and as predicted."""

from collections.abc import Iterator, Mapping
from typing import Any

from fleet.proof.ab.line import Arm, Line, as_number, percent_more


def context(control: Arm, arm: Arm) -> Line:
    """The longest request: what the engine is told, or what the pool holds where that is less."""
    found = []
    for each in (control, arm):
        known = (each.get("max_model_len"), (each.get("measured") or {}).get("kv_cache_size_tokens"))
        numbers = [number for number in map(as_number, known) if number is not None]
        found.append(min(numbers) if len(numbers) == len(known) else None)
    before, now = found
    told = ["unknown" if value is None else f"{value:,.0f}" for value in found]
    change = "-" if before is None or now is None else f"{now - before:+,.0f}"
    return Line(name="longest request (tokens)", control=told[0], arm=told[1], difference=change)


def memory(control: Arm, arm: Arm) -> Iterator[Line]:
    """Memory used on each GPU, and the tightest: the mean of eight hides one that is full."""
    before, now = (_gpus(each) for each in (control, arm))
    for index in sorted(before.keys() | now.keys()):
        told = [f"{free[index]:,.0f}" if index in free else "unknown" for free in (before, now)]
        yield Line(name=f"GPU {index} free (MiB)", control=told[0], arm=told[1], difference=_minus(before, now, index))
    if before and now:
        least = min(before.values()), min(now.values())
        yield Line(
            name="tightest GPU free (MiB)",
            control=f"{least[0]:,.0f}",
            arm=f"{least[1]:,.0f}",
            difference=f"{least[1] - least[0]:+,.0f}",
        )


def _gpus(arm: Arm) -> dict[int, float]:
    found = {}
    for gpu in arm.get("gpus") or []:
        free = as_number(gpu.get("free_mib")) if isinstance(gpu, dict) else None
        if free is not None and isinstance(gpu.get("index"), int):
            found[gpu["index"]] = free
    return found


def _minus(before: dict[int, float], now: dict[int, float], index: int) -> str:
    return f"{now[index] - before[index]:+,.0f}" if index in before and index in now else "-"


def calibration(control: Arm, arm: Arm) -> Iterator[Line]:
    """What each arm logged of its memory, with the prediction behind it, and the graphs, which none predicts apart."""
    before, now = (_predictions(each) for each in (control, arm))
    for name in dict.fromkeys((*before, *now)):
        rows = [each.get(name) for each in (before, now)]
        logged = [as_number(row.get("logged")) if row else None for row in rows]
        both = logged[0] is not None and logged[1] is not None
        yield Line(
            name=f"{name}: logged (predicted)",
            control=_foretold(rows[0]),
            arm=_foretold(rows[1]),
            difference=f"{percent_more(logged[0] or 0, logged[1] or 0):+.1f} %" if both else "-",
        )
    for process in dict.fromkeys(name for each in (control, arm) for name in _graphs(each)):
        told = [f"{_graphs(each)[process]:.2f}" if process in _graphs(each) else "unknown" for each in (control, arm)]
        yield Line(name=f"graphs of {process} (GiB)", control=told[0], arm=told[1])


def _predictions(arm: Arm) -> dict[str, Mapping[str, Any]]:
    """Figure -> what was predicted of it beside what the engine logged."""
    rows = arm.get("predicted_and_logged") or []
    return {
        str(row.get("figure")): row
        for row in rows
        if isinstance(row, dict) and None not in (as_number(row.get("predicted")), as_number(row.get("logged")))
    }


def _foretold(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "unknown"
    logged, predicted = float(row["logged"]), float(row["predicted"])
    digits = 0 if str(row.get("figure")).endswith("tokens") else 2
    return f"{logged:,.{digits}f} ({predicted:,.{digits}f})"


def _graphs(arm: Arm) -> dict[str, float]:
    """Process of the engine -> GiB that its captured graphs took."""
    ranks = (arm.get("started") or {}).get("ranks") or []
    sizes = {
        str(rank.get("process")): as_number(rank.get("cuda_graph_gib")) for rank in ranks if isinstance(rank, dict)
    }
    return {process: size for process, size in sizes.items() if size is not None}


def findings(control: Arm, arm: Arm) -> Iterator[str]:
    for title, each in (("control", control), ("arm", arm)):
        for name, row in _predictions(each).items():
            if row.get("finding") is True:
                yield f"{title}: {name}: predicted {row['predicted']:,}, logged {row['logged']:,} ({row['off']:+.1%})"
