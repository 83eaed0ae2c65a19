"""The lines in which an engine tells its memory, and nvidia-smi's beside them, as `node measured` prints both."""

import re
from collections.abc import Iterable

from fleet.ledger.started import GpuMemory, Started, StartedRank

_PROCESS = re.compile(r"\((?P<process>[\w.-]+) pid=\d+\)")
_NUMBER = r"(?P<value>\d+(?:\.\d+)?)"
_FIGURES = {
    "weights_gib": re.compile(rf"Model loading took {_NUMBER} GiB"),
    "available_kv_gib": re.compile(rf"Available KV cache memory: {_NUMBER} GiB"),
    "cuda_graph_gib": re.compile(rf"Graph capturing finished in \d+ secs, took {_NUMBER} GiB"),
}
_POOL = re.compile(r"KV cache size: (?P<tokens>\d[\d,]*) tokens")
_GPU = re.compile(r"gpu=(\d+), (\d+), (\d+)")


def parse_start(lines: Iterable[str]) -> Started:
    """The figures of one start. Lines of another form say nothing; of several pools the smallest, which binds."""
    ranks: dict[str, dict[str, float]] = {}
    pools: list[int] = []
    gpus: list[GpuMemory] = []
    for line in lines:
        named = _PROCESS.search(line)
        process = named["process"] if named else "engine"
        for field, pattern in _FIGURES.items():
            if found := pattern.search(line):
                ranks.setdefault(process, {})[field] = float(found["value"])
        if found := _POOL.search(line):
            pools.append(int(found["tokens"].replace(",", "")))
        if found := _GPU.fullmatch(line.strip()):
            index, used, total = map(int, found.groups())
            gpus.append(GpuMemory(index=index, used_mib=used, total_mib=total))
    return Started(
        ranks=tuple(StartedRank(process=process, **figures) for process, figures in sorted(ranks.items())),
        pool_tokens=min(pools, default=None),
        gpus=tuple(gpus),
    )
