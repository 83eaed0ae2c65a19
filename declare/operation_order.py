"""How pyinfra numbers operations: by where they stand in the deploy file. It reads more for that than it needs."""

import inspect
from functools import partial

from pyinfra.api import util


def read_no_source_lines() -> None:
    """Let pyinfra number operations by the frames' line numbers alone.

    For each operation of each host it also looks up the source text of every frame, which nothing uses: 10 ms a host.
    """
    util.stack = partial(inspect.stack, 0)
    util.getframeinfo = partial(inspect.getframeinfo, context=0)
