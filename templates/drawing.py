"""Where things stand in the drawing of a node: a panel a NUMA node, GPUs in rows of four, NVLink as lines below."""

from collections.abc import Iterable, Sequence
from string import ascii_uppercase

from fleet.drift import Case
from fleet.frozen import Frozen
from fleet.plan import NodeView

COLUMNS = 4
CELL, GAP, PAD, TITLE, LANE = 84, 10, 12, 24, 9
"""Lengths in units of the drawing, which are pixels on a wide screen."""
HEIGHT = 76
STAGES = 8
"""Colours of stages; more stages than that begin anew."""


class Cell(Frozen):
    """One GPU. `state`: ok, problem, or missing where it is declared and not there."""

    gpu: int
    x: int
    y: int
    state: str
    problem: str = ""
    lines: tuple[str, ...] = ()
    """At most two: the rank and its stage, and the service."""
    color: int | None = None
    """Of its stage; None where no rank sits here."""
    memory: float | None = None
    """Share of its memory that is in use; None where the node did not tell."""


class Bus(Frozen):
    """One NVLink island within one row: a line at `y` from the middle of its first GPU to that of its last."""

    name: str
    y: int
    top: int
    taps: tuple[int, ...]


class Panel(Frozen):
    """The GPUs of one NUMA node. `title` says which, and its CPUs."""

    title: str
    width: int
    height: int
    cells: tuple[Cell, ...]
    buses: tuple[Bus, ...]


class Drawing(Frozen):
    """A node as a picture, with the words for who cannot see it."""

    panels: tuple[Panel, ...]
    islands: tuple[str, ...]
    """`A: GPU 0, 1`, as the lines are lettered."""
    words: str


def draw(view: NodeView, cases: Sequence[Case]) -> Drawing:
    """The node as it told of itself; as declared where it did not."""
    topology = view.facts.topology if view.facts else None
    islands = topology.islands if topology else view.node.nvlink_islands
    numa = topology.numa if topology else view.node.numa
    count = max(view.node.gpus.count, topology.gpus if topology else 0, len(numa))
    numa = (*numa, *([None] * (count - len(numa))))
    names = {gpu: ascii_uppercase[place % 26] for place, island in enumerate(islands) for gpu in island}
    groups: dict[int | None, list[int]] = {}
    for gpu in range(count):
        groups.setdefault(numa[gpu], []).append(gpu)
    order = sorted(groups, key=lambda key: (key is None, key or 0))
    cpus = {node.id: node.cpus for node in view.facts.numa} if view.facts else {}
    panels = tuple(_panel(_title(key, cpus), groups[key], view, cases, names) for key in order)
    told = tuple(f"{ascii_uppercase[n % 26]}: GPU {_list(island)}" for n, island in enumerate(islands))
    return Drawing(panels=panels, islands=told, words=_words(view, panels, told))


def _title(numa: int | None, cpus: dict[int, str]) -> str:
    if numa is None:
        return "NUMA node not told"
    return f"NUMA {numa}" + (f" · CPU {cpus[numa]}" if cpus.get(numa) else "")


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _panel(title: str, gpus: list[int], view: NodeView, cases: Sequence[Case], names: dict[int, str]) -> Panel:
    cells: list[Cell] = []
    buses: list[Bus] = []
    y = TITLE + PAD
    for start in range(0, len(gpus), COLUMNS):
        row = gpus[start : start + COLUMNS]
        cells += [_cell(gpu, PAD + at * (CELL + GAP), y, view, cases) for at, gpu in enumerate(row)]
        lanes = _lanes(row, names)
        for lane, members in enumerate(lanes):
            for name, places in members:
                taps = tuple(PAD + at * (CELL + GAP) + CELL // 2 for at in places)
                buses.append(Bus(name=name, y=y + HEIGHT + 7 + lane * LANE, top=y + HEIGHT, taps=taps))
        y += HEIGHT + GAP + max(len(lanes), 1) * LANE + 4
    width = 2 * PAD + min(len(gpus), COLUMNS) * (CELL + GAP) - GAP
    return Panel(title=title, width=max(width, 190), height=y, cells=tuple(cells), buses=tuple(buses))


def _lanes(row: list[int], names: dict[int, str]) -> list[list[tuple[str, list[int]]]]:
    """The islands of a row, those that would cross on lanes of their own."""
    places: dict[str, list[int]] = {}
    for at, gpu in enumerate(row):
        if gpu in names:
            places.setdefault(names[gpu], []).append(at)
    lanes: list[list[tuple[str, list[int]]]] = []
    for name, members in places.items():
        free = next((lane for lane in lanes if lane[-1][1][-1] < members[0]), None)
        if free is None:
            lanes.append([(name, members)])
        else:
            free.append((name, members))
    return lanes


def _cell(gpu: int, x: int, y: int, view: NodeView, cases: Sequence[Case]) -> Cell:
    seen = next((one for one in view.facts.nvidia.gpus if one.index == gpu), None) if view.facts else None
    state = "missing" if view.facts and seen is None else "problem" if seen and seen.problem else "ok"
    memory = None
    if seen and seen.memory_mib and seen.memory_used_mib is not None:
        memory = min(1.0, seen.memory_used_mib / seen.memory_mib)
    lines, color = _rank(gpu, cases)
    problem = (seen.problem if seen else None) or ("" if state == "ok" else "not there")
    return Cell(gpu=gpu, x=x, y=y, state=state, problem=problem, lines=lines, color=color, memory=memory)


def _rank(gpu: int, cases: Sequence[Case]) -> tuple[tuple[str, ...], int | None]:
    shift = 0
    for case in cases:
        stages = case.plan.layout.pp if case.plan.layout else 1
        for rank in case.plan.ranks:
            if rank.gpu == gpu:
                place = f"rank {rank.rank}" + (f" · st {rank.stage}" if stages > 1 else "")
                return (place, case.plan.service.name[:12]), (shift + rank.stage) % STAGES
        shift += stages
    return ("free",), None


def _words(view: NodeView, panels: Sequence[Panel], islands: Sequence[str]) -> str:
    told = [f"{view.node.name}: {view.node.gpus.count} x {view.node.gpus.model}"]
    for panel in panels:
        cells = "; ".join(f"GPU {cell.gpu} {' '.join(cell.lines)} {cell.problem}".strip() for cell in panel.cells)
        told.append(f"{panel.title}: {cells}")
    return ". ".join([*told, f"NVLink islands {'; '.join(islands)}" if islands else "no NVLink island"])
