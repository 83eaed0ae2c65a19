"""Ask what every node serves: `pyinfra inventory.py verify.py`. Probes only; nothing is restarted.

The probes of each service's policy, or `--data probes=smoke,needle --data trials=200`. Exit 2 where one is degraded,
1 where one failed. Results are kept with the release on the node and in the folder `verified` here.
"""

from pyinfra import host, state

from declare import invocation
from operations import verify

if verify.first(host.name):  # pyinfra runs this once a host; one of them asks all nodes, side by side
    found = verify.ask(state, invocation.current())
    verify.show(found, invocation.current())
    verify.leave(found)
