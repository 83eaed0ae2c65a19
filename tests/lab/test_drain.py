"""A node is taken out of traffic before its engine stops, and put back after its proof."""

from typing import Any

import pytest
from proxy import Clients, Proxy, running_proxy
from rollout_midway import results, states, until
from rollout_site import RolloutSite

pytestmark = pytest.mark.lab
PAIR = ("a1", "h1")
LIMIT = ("--limit", "a1", "--limit", "h1")


def service(site: RolloutSite, length: int = 4096, tokens_per_s: int = 20, **policy: Any) -> dict[str, Any]:
    """A stream of 40 tokens takes two seconds, and the engine's end waits for none of them."""
    own = site.service(max_model_len=length, policy={"stop_grace_s": 1, **policy})
    return {**own, "env": {**own["env"], "VLLM_STANDIN_TOKENS_PER_S": str(tokens_per_s)}}


def roll(site: RolloutSite, declared: dict[str, Any], *words: str) -> None:
    """Roll it out on both nodes; it must succeed."""
    site.write(chat=declared)
    ran = site.deploy(*LIMIT, *words)
    assert ran.code == 0, ran.out


def report(site: RolloutSite) -> tuple[str, str]:
    """`--data` for the report that `results` reads."""
    return ("--data", f"report={site.root / 'report.json'}")


def away(site: RolloutSite, node: str) -> tuple[int, int]:
    """From when until when the node did not serve in the last rollout, in microseconds."""
    names = ("ActiveExitTimestamp", "ActiveEnterTimestamp")
    shown = site.on(node, f"systemctl show --timestamp=us+utc -p {','.join(names)} vllm-chat")
    found = dict(line.split("=", 1) for line in shown.splitlines())
    script = "; ".join(f"date -ud '{found[name].removeprefix('n/a')}' +%s%6N" for name in names)
    left, entered = map(int, site.on(node, script).split())
    assert left < entered
    return left, entered


@pytest.fixture
def proxy(shared_site: RolloutSite) -> Any:
    """HAProxy before the two nodes, which serve, drained by nobody."""
    shared_site.rollout = {"batches": ["100%"], "look_again_s": 0}
    roll(shared_site, service(shared_site, last_replica="keep"))
    with running_proxy(shared_site, PAIR) as proxy:
        yield proxy


def test_a_rollout_with_hooks_cuts_no_stream(shared_site: RolloutSite, proxy: Proxy) -> None:
    site, before = shared_site, states(shared_site)
    hooks = {"drain": proxy.hook("drain"), "undrain": proxy.hook("ready")}
    site.write(chat=service(site, 2000, last_replica="keep", **hooks))
    with Clients(proxy.port, 8) as clients:
        until(lambda: clients.counted["whole"] >= 8, 20, "streams flow")
        ran = site.deploy(*LIMIT, *report(site))
        enough = clients.counted["whole"] + 8
        until(lambda: clients.counted["whole"] >= enough, 20, "streams flow through both nodes again")
    assert ran.code == 0, ran.out
    assert set(clients.counted) == {"whole"}, clients.counted
    for node in PAIR:
        state = site.state(node, "chat")
        assert state["proven"] == state["current"] != before[node]["current"]
        assert "requests ran at the stop" not in results(site)[node]["proof"]
    windows = sorted(away(site, node) for node in PAIR)
    assert windows[0][1] < windows[1][0], "at every moment one of the two served, though a batch may hold both"


def test_without_hooks_the_same_streams_are_cut_and_the_result_tells_it(shared_site: RolloutSite, proxy: Proxy) -> None:
    site = shared_site
    site.write(chat=service(site, 2000))
    with Clients(proxy.port, 8) as clients:
        until(lambda: clients.counted["whole"] >= 8, 20, "streams flow")
        ran = site.deploy(*LIMIT, *report(site))
    assert ran.code == 0, ran.out
    assert clients.counted["cut"] > 0, clients.counted
    assert any("requests ran at the stop and were cut" in row["proof"] for row in results(site).values()), ran.out
