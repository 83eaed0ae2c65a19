"""Bring the release before back: `pyinfra inventory.py rollback.py -y`, with `--limit` and `--data service=NAME`.

The same turns as a rollout: drain, activate, prove, or put what ran before back.
"""

from pyinfra import host, state
from pyinfra.operations import python

from declare import invocation
from operations import back, prepare, rollout

run = rollout.begin(lambda: back.prepare(state, invocation.current()))

if run.active and host.name in run.hosts:
    python.call(
        name="Lock every node, then look again",
        function=rollout.lock_nodes,
        rollout=run,
        lease_s=run.survey.fleet.rollout.lock_lease_s,
    )
    python.call(name="Bring the node script up to date", function=rollout.stage, rollout=run)
    for number, batch in enumerate(host.loop(run.batches), start=1):
        if host.name in batch:
            python.call(
                name=f"Batch {number} of {len(run.batches)}: bring back and prove",
                function=rollout.turn,
                rollout=run,
                probes=prepare.probe_folders(invocation.current()),
            )
        if number < len(run.batches):
            rollout.barrier(name=f"End of batch {number}")
    python.call(name="Unlock", function=rollout.finish, rollout=run)
