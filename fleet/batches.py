"""In which order the nodes of a rollout take their turn."""

import math


def batch_sizes(policy: tuple[str, ...], nodes: int) -> list[int]:
    """Sizes: counts or percents of all nodes (rounded up); the last entry repeats until all had their turn."""
    sizes: list[int] = []
    while sum(sizes) < nodes:
        text = policy[min(len(sizes), len(policy) - 1)]
        size = math.ceil(nodes * int(text[:-1]) / 100) if text.endswith("%") else int(text)
        sizes.append(min(max(size, 1), nodes - sum(sizes)))
    return sizes


def batches(
    nodes: list[str], policy: tuple[str, ...], serving: dict[str, frozenset[str]], keep: frozenset[str]
) -> list[list[str]]:
    """Nodes in name order, cut into batches such that no batch holds every serving node of a service.

    `serving`: service -> nodes that serve it now with a proven release. `keep`: services whose last replica may not be
    taken. A node that would take the last one waits for a later batch; where a service has one node only, the gate
    `last-replica` has the word, not this function.
    """
    waiting = sorted(nodes)
    result: list[list[str]] = []
    for size in batch_sizes(policy, len(waiting)):
        batch: list[str] = []
        for node in list(waiting):
            if len(batch) < size and not _takes_the_last(node, batch, serving, keep):
                batch.append(node)
                waiting.remove(node)
        result.append(batch)
    # What had to wait goes one by one at the end.
    return [batch for batch in result if batch] + [[node] for node in waiting]


def _takes_the_last(node: str, batch: list[str], serving: dict[str, frozenset[str]], keep: frozenset[str]) -> bool:
    together = {*batch, node}
    return any(len(on) > 1 and node in on and on <= together for service, on in serving.items() if service in keep)
