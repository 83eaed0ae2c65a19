"""pyinfra's inventory: the fleet that FLEET names, from `inventory/FLEET/NODE.yaml`. See docs/site.md."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from declare.command_line import open_inventory

all, _groups = open_inventory()
globals().update(_groups)
