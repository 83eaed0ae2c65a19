"""`fleet unlock`: the way out of the lock of a run that died."""

import json

import pytest
from rollout_site import RolloutSite

from fleet.releases.command import NODE_SCRIPT

pytestmark = pytest.mark.lab


def test_the_lock_of_a_dead_run_is_told_and_taken_away_only_when_asked_twice(site: RolloutSite) -> None:
    site.write(chat=site.service())
    assert site.deploy("--limit", "l1").code == 0
    site.on("l1", f"{NODE_SCRIPT} lock 'somebody@elsewhere pid 7' dead 900")
    refused = site.deploy("--limit", "l1", "--data", "max_model_len=2048")
    assert refused.code == 1 and "fleet unlock l1 --yes" in refused.plain
    told = site.fleet_command("unlock", "l1")
    assert told.code == 1 and "held by somebody@elsewhere pid 7" in told.plain
    assert site.on("l1", "cat /var/lib/vllm-fleet/lock")
    taken = site.fleet_command("unlock", "l1", "--yes", "--json")
    held = {"node": "l1", "holder": "somebody@elsewhere pid 7", "run": "dead", "unlocked": True}
    assert taken.code == 0 and json.loads(taken.out[taken.out.index("{") :]) == held, taken.out
    assert "is not locked" in site.fleet_command("unlock", "l1").plain
    assert site.deploy("--limit", "l1", "--data", "max_model_len=2048").code == 0


def test_a_report_that_cannot_be_written_is_refused_before_anything_changes(site: RolloutSite) -> None:
    site.write(chat=site.service())
    ran = site.deploy("--data", "report=/nonexistent/report.json")
    assert ran.code == 1 and "want a file that can be written, found /nonexistent/report.json" in ran.plain
    assert site.state("l1", "chat") == {}
