"""`make recorded`: record the nodes of inventory/recorded anew, from a fresh lab of its own (root on Linux).

Needed when the probe or the stand-in's image changes its format. What identifies the machine that recorded, and differs
in each recording without meaning (boot id, kernel build, nonce), is left out; a fresh node holds no secret.
"""

import re
import shutil
import sys
from pathlib import Path

from declare.invocation import Invocation, for_command
from lab.host import LabError
from lab.lab import Lab

RECORDED = Path(__file__).resolve().parent.parent / "inventory" / "recorded"
LAB = "recording"
_NOISE = re.compile(r"^kernel=.*\n", re.MULTILINE)


def record(invocation: Invocation, folder: Path) -> list[Path]:
    """Ask every node of a fleet once and write NODE.probe. LabError where one does not answer or serves already."""
    from cli import capturing, session  # here: they patch the sockets of the whole process

    names = list(invocation.nodes)
    with session.connected(invocation, names) as connected:
        answers, failed = capturing.ask(connected, names)
    if failed:
        raise LabError("; ".join(f"{name}: {reason}" for name, reason in failed.items()))
    written = []
    for name, answer in answers.items():
        if answer.facts.services:
            raise LabError(f"{name}: want a node with nothing rolled out, found {answer.facts.services[0].name}")
        path = folder / f"{name}.probe"
        path.write_text(_NOISE.sub("", answer.text))
        written.append(path)
    return written


def _declare(lab: Lab) -> Path:
    """The recorded fleet's services on the nodes of the lab, with the digest that these hold."""
    fleet = lab.folder / "recorded"
    shutil.rmtree(fleet, ignore_errors=True)
    lab.write_inventory(fleet)
    shutil.copytree(RECORDED / "group_data", fleet / "group_data")
    for folder in (fleet, RECORDED):
        shutil.copyfile(lab.folder / "image-0.30.0.digest", folder / "standin.digest")
    return fleet


def main() -> int:
    """Boot, record, end the lab."""
    lab = Lab(LAB, 3)
    try:
        lab.down()
        lab.up()
        written = record(for_command(str(_declare(lab))), RECORDED)
    except LabError as error:
        print(f"nothing was recorded: {error}", file=sys.stderr)
        return 1
    lab.down()
    shutil.rmtree(lab.folder)
    print(f"recorded {', '.join(path.name for path in written)} and standin.digest in {RECORDED}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
