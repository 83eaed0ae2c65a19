"""`python -m bench.render FLEET FOLDER [NAME=VALUE ...]`: what the product renders for every node, as files."""

import sys
from collections.abc import Iterable
from pathlib import Path

from fleet.releases.release import ENV, UNIT, Release


def write_releases(releases: Iterable[Release], folder: Path) -> None:
    """FOLDER/NODE/unit and FOLDER/NODE/env: the texts of a release, as every contestant must bring them to the node."""
    for release in releases:
        place = folder / release.node
        place.mkdir(parents=True, exist_ok=True)
        (place / "unit").write_text(release.files[UNIT])
        (place / "env").write_text(release.files[ENV])


def main(fleet: str, folder: str, *data: str) -> None:
    """Ask the nodes, plan, render, write."""
    from cli import session  # before all that opens sockets: it patches them
    from declare.invocation import for_command

    invocation = for_command(fleet, data)
    with session.connected(invocation, [placement.node.name for placement in invocation.fleet.placements]) as asked:
        write_releases(asked.survey().releases.values(), Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
