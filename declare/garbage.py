"""Python's search for cycles of objects, which a run of many nodes hardly makes."""

import gc

SEARCH_AFTER = 200_000
"""Objects more than were given back, until Python looks for cycles among them. Its own 700 make a run of many nodes,
which keeps nearly all that it makes, look some thousand times: a sixth of its processor time."""


def search_seldom() -> None:
    """From now on. In the .venv that `make venv` makes it is so from the first module on."""
    gc.set_threshold(SEARCH_AFTER)
