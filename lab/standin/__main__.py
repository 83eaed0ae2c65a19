"""`python -m lab.standin serve MODEL ...`: the stand-in engine outside a container."""

import sys

from .engine import main

sys.exit(main(sys.argv[1:]))
