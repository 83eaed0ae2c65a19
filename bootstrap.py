"""From a bare install to a node that passes the gates: `pyinfra inventory.py bootstrap.py -y`, or `--dry --diff`.

What a node still needs is decided from what it is; a node that conforms has no step. Reboots are said, and done only
with `--data reboot=true`, one node at a time.
"""

from pyinfra import host, state
from pyinfra.operations import python

from declare import invocation
from operations import rollout
from operations.bootstrap import hold, verb
from operations.bootstrap.perform import perform

run = verb.begin(state, invocation.current())

if host.name in run.hosts:
    if run.changes(host.name):
        python.call(name="Lock every machine that changes, then look again", function=hold.lock, run=run)
    for step in run.steps(host.name):
        perform(step)
    if run.steps(host.name):
        python.call(name="Look again: everything is as declared", function=hold.check, run=run)
    for name in host.loop(run.rebooting):
        if host.name == name:
            python.call(name="Hold the lock while it reboots", function=hold.park, run=run)
            for step in (step for step in run.found[name].steps if step.kind == "reboot"):
                python.call(name=step.name, function=hold.reboot, run=run)
            python.call(name="Look after the reboot", function=hold.after_reboot, run=run)
        rollout.barrier(name=f"{name} is back")
    if run.changes(host.name):
        python.call(name="Unlock", function=hold.unlock, run=run)
