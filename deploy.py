"""Bring every node to its declared releases: `pyinfra inventory.py deploy.py -y`, or `--dry --diff` to only look.

Observe, decide, judge and show happen in `begin`, for all nodes at once, and refuse before anything changes.
"""

from pyinfra import host, state
from pyinfra.operations import python

from declare import invocation
from operations import prepare, rollout

run = rollout.begin(lambda: prepare.deploy(state, invocation.current()))

if run.active and host.name in run.hosts:
    python.call(
        name="Lock every node, then look again",
        function=rollout.lock_nodes,
        rollout=run,
        lease_s=run.survey.fleet.rollout.lock_lease_s,
    )
    python.call(name="Stage releases beside what serves", function=rollout.stage, rollout=run)
    for number, batch in enumerate(host.loop(run.batches), start=1):
        if host.name in batch:
            python.call(
                name=f"Batch {number} of {len(run.batches)}: activate and prove",
                function=rollout.turn,
                rollout=run,
                probes=prepare.probe_folders(invocation.current()),
            )
        if number < len(run.batches):
            rollout.barrier(name=f"End of batch {number}")
    python.call(name="Unlock", function=rollout.finish, rollout=run)
