"""Ask every gate of every node, also what a rollout leaves out, and change nothing: `pyinfra inventory.py gates.py`.

Exit 0 where none fails (or every failure is waived), 1 otherwise. `--json` prints the verdicts for machines,
`--data report=PATH` writes them to a file.
"""

from pyinfra import state

from declare import invocation
from operations import judging

judging.judge(state, invocation.current())
