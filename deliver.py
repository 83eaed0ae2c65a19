"""Bring every node its checkpoints and images: `pyinfra inventory.py deliver.py -y`, or `--dry` to only look.

What is there, what must move and what is refused is decided in `begin`, for all nodes at once, before anything moves.
"""

from pyinfra import host, state
from pyinfra.operations import python

from declare import invocation
from operations.delivery import verb

run = verb.begin(state, invocation.current())

if run.active and not run.dry and host.name in run.hosts:
    python.call(name="Bring checkpoints and images", function=verb.bring, run=run)
    if run.clean:
        python.call(name="Take away what deliveries left", function=verb.clean_up, run=run)
