"""`make recorded`: record the nodes of inventory/recorded anew, from a fresh lab of its own (root on Linux).

Needed when the probe or the stand-in's image changes its format. What identifies the machine that recorded, and differs
in each recording without meaning (boot id, kernel build, nonce), is left out; a fresh node holds no secret.
"""

import re
import shutil
import sys
from pathlib import Path

from declare.invocation import Invocation, for_command
from facts.parse.frames import with_nonce
from facts.parse.probe import parse_probe
from facts.script import probe_script
from facts.shell import run
from lab.host import LabError
from lab.lab import Lab
from operations.survey import request_for

RECORDED = Path(__file__).resolve().parent.parent / "inventory" / "recorded"
LAB = "recording"
NONCE = "0123456789abcdef"
_NOISE = re.compile(r"^(?:boot_id|kernel)=.*\n", re.MULTILINE)


def scrubbed(answer: str) -> str:
    """A probe's answer without what differs from run to run or names the machine."""
    return with_nonce(_NOISE.sub("", answer), NONCE).rstrip("\n") + "\n"


def record(invocation: Invocation, folder: Path) -> list[Path]:
    """Ask every node of a fleet once and write NODE.probe. ProbeError where an answer is not whole."""
    from cli import session  # here: it patches the sockets of the whole process

    written = []
    with session.connected(invocation, list(invocation.nodes)) as connected:
        for name, host in sorted(connected.hosts.items()):
            script = probe_script(request_for(invocation.fleet.placement(name), key="", deep=True))
            answer = run(host, ("bash", "-s"), stdin=script.text).stdout
            facts = parse_probe(answer, script)
            if facts.services:
                raise LabError(f"{name}: want a node with nothing rolled out, found {facts.services[0].name}")
            path = folder / f"{name}.probe"
            path.write_text(scrubbed(answer))
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
