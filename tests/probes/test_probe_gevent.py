"""Probes run inside pyinfra's process, which is monkey-patched by gevent, from one greenlet a host."""

import json
import subprocess
import sys
from pathlib import Path

from lab.standin.process import PROJECT, running

SCRIPT = """
from gevent import monkey
monkey.patch_all()
import json, sys, time
import gevent, gevent.pool
from probes.evidence import Endpoint, Limits
from probes.asking.load import load
from probes.asking.metrics import running_requests

completion = load("completion")
good, hanging = sys.argv[1:]
endpoints = [Endpoint(url=url, model="glm") for url in (good, hanging) * 20]
ticks = []

def tick():
    while True:
        ticks.append(time.monotonic())
        gevent.sleep(0.02)

ticking = gevent.spawn(tick)
begin = time.monotonic()
found = gevent.pool.Pool(40).map(lambda endpoint: completion(endpoint, Limits(total_s=1.5)), endpoints)
took = time.monotonic() - begin
named = completion(Endpoint(url=good.replace("127.0.0.1", "localhost"), model="glm"), Limits(total_s=5))
ticking.kill()
print(json.dumps({
    "passed": [each.passed for each in found],
    "texts": sorted({str(each.details.get("text")) for each in found}),
    "took": took,
    "named": named.passed,
    "gap": max(later - sooner for sooner, later in zip(ticks, ticks[1:])),
    "running": running_requests(good),
}))
"""


def test_many_greenlets_probe_at_once(model: Path) -> None:
    name = ("--served-model-name", "glm")
    with running(model, *name) as good, running(model, *name, environ={"VLLM_STANDIN_FAULT": "hang"}) as hanging:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, good.url, hanging.url],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["passed"] == [True, False] * 20
    assert result["texts"] == ["None", "The answer is 4."]
    assert 1.4 < result["took"] < 3, "side by side, and none past its deadline"
    assert result["gap"] < 1, "no probe blocks the other greenlets"
    assert result["named"]
    assert result["running"] == 0
