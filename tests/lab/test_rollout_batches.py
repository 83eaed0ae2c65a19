"""Nodes take their turns in batches: one canary first, then a quarter at a time, each batch after the one before."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from rollout_site import RolloutSite

from fleet.releases.command import STATE
from lab.lab import Lab

pytestmark = pytest.mark.lab
BATCHES = (("a1",), ("a2", "h1"), ("h2", "l1"), ("l2",))
"""The default policy, [1, "25%"], on six nodes: a quarter is rounded up to two."""


def turn(site: RolloutSite, node: str) -> tuple[float, float]:
    """When the node began to start its release, and when that was proven; all nodes have this machine's clock."""
    began = site.on(node, "systemctl show --value --timestamp=us+utc -p InactiveExitTimestamp vllm-chat")
    times = site.on(node, f"date -ud '{began}' +%s.%6N; stat -c %.6Y {STATE}/chat/proven").split()
    return float(times[0]), float(times[1])


def test_the_default_batches_come_one_after_the_other(own_lab: Callable[[int], Lab], tmp_path: Path) -> None:
    lab = own_lab(6)
    lab.up()
    names = tuple(node.name for node in lab.nodes)
    site = RolloutSite(lab, tmp_path / "site", names)
    for node in names:
        site.fault(node, "slow-start:2")
    site.write(chat=site.service())
    policy = site.fleet / "group_data" / "all.yaml"
    policy.write_text(yaml.safe_dump({"rollout": {"min_free_gib": 0.1}}))
    ran = site.deploy()
    assert ran.code == 0, ran.out
    turns = {node: turn(site, node) for node in names}
    for batch in BATCHES:
        assert max(turns[node][0] for node in batch) < min(turns[node][1] for node in batch), (
            f"{batch} take their turn together: {turns}"
        )
    for before, after in pairwise(BATCHES):
        assert max(turns[node][1] for node in before) < min(turns[node][0] for node in after), (
            f"{after} begin when {before} are proven: {turns}"
        )
