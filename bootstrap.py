"""From a bare install to a node that passes the gates: `pyinfra inventory.py bootstrap.py -y`, or `--dry --diff`.

What a node still needs is decided from what it is; a node that conforms has no step. Reboots are said, and done only
with `--data reboot=true`, one node at a time.
"""

from pyinfra import host, state
from pyinfra.operations import python

from declare import invocation
from operations import bootstrap, rollout

run = bootstrap.begin(state, invocation.current())

if host.name in run.hosts:
    for step in run.steps(host.name):
        bootstrap.perform(step)
    if run.steps(host.name):
        python.call(name="Look again: everything is as declared", function=bootstrap.check, run=run)
    for name in host.loop(run.rebooting):
        if host.name == name:
            for step in (step for step in run.found[name].steps if step.kind == "reboot"):
                bootstrap.perform(step)
        rollout.barrier(name=f"{name} is back")
