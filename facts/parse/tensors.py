"""The names of a checkpoint's indexer tensors -> the layers that have a whole indexer."""

import re
from collections import defaultdict
from collections.abc import Sequence

from facts.parse.refusal import quoted

_NAME = re.compile(r'"[A-Za-z0-9_.]*layers\.([0-9]+)\.self_attn\.indexer\.([A-Za-z0-9_]+)(?:\.[A-Za-z0-9_.]+)?"')


def parse_indexers(lines: Sequence[str]) -> tuple[tuple[int, ...] | None, str | None]:
    """Layers with every module that an indexer of this checkpoint has, or None and why they are not known.

    `lines`: names as they stand in the index, quotes included, and `exit CODE` of the search: 1 is none found.
    """
    if not lines or lines[-1] not in ("exit 0", "exit 1"):
        return None, quoted("\n".join(lines[:-1]) or "".join(lines) or "no answer")
    modules: defaultdict[int, set[str]] = defaultdict(set)
    for line in lines[:-1]:
        name = _NAME.fullmatch(line)
        if name is None:
            return None, f"want the name of an indexer's tensor, found {quoted(line)}"
        modules[int(name[1])].add(name[2])
    whole = set().union(*modules.values())
    return tuple(sorted(layer for layer, found in modules.items() if found == whole)), None
