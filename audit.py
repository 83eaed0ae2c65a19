"""Compare every node with what is declared, released and running: `pyinfra inventory.py audit.py`. Changes nothing.

Reads the node, the release that lies on it, and the processes that run; exits 2 on drift, 1 where it could not be told.
"""

from pyinfra import host, state

from declare import invocation
from operations import audit

if audit.first(host.name):  # pyinfra runs this once a host; one of them looks at all nodes, with one probe each
    found = audit.look(state, invocation.current())
    audit.show(found, invocation.current())
    audit.leave(found)
