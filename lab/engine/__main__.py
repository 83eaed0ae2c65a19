"""`python -m lab.engine [VERSION]`: install the CPU build of vLLM where the cache has none, print its interpreter."""

import sys

from lab import host
from lab.engine import venv


def main() -> int:
    """Exit 1 with the reason where it cannot be had."""
    version = sys.argv[1] if len(sys.argv) > 1 else venv.DEFAULT
    reason = venv.unfit()
    try:
        if reason:
            raise host.LabError(reason)
        print(venv.ensure(version, lambda text: print(text, file=sys.stderr)))
    except host.LabError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


sys.exit(main())
