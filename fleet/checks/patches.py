"""Patched files of the engine: what the running process sees of them, against what the release recorded."""

import json
from collections.abc import Iterator

from fleet.drift import Case, Seen, check
from fleet.known import Undecidable
from fleet.releases.command import STATE
from fleet.releases.release import PATCHES


@check("patches", remedy="pyinfra inventory.py deploy.py -y --limit {node}, then look who changed it")
def patches(case: Case) -> Iterator[Seen]:
    """Each file of the engine that the release patches is, within the container, what was made of the image's."""
    named = [str(patch.get("name")) for patch in case.document.get("patches") or ()]
    engine = case.engine
    if not named or engine is None:
        return
    seen = {mounted.target: mounted.sha256 for mounted in engine.mounts}
    for target, sha256, by in _recorded(case, named):
        if target not in seen:
            yield Seen(want=f"{target} as {by} made it", got="the image's own file")
        elif seen[target] != sha256:
            found = f"sha256 {str(seen[target])[:16]}..." if seen[target] else "no file"
            yield Seen(want=f"{target} as {by} made it, sha256 {sha256[:16]}...", got=found)


def _recorded(case: Case, named: list[str]) -> list[tuple[str, str, str]]:
    """Target, SHA-256 and patches of every file, from patches.json. Raises Undecidable where it cannot be read."""
    lies = case.installed
    place = f"{STATE}/{case.plan.service.name}/releases/{lies.current if lies else ''}/{PATCHES}"
    text = next((file.text for file in lies.files if file.path == place), None) if lies else None
    try:
        rows = json.loads(text or "")["files"]
        return [(str(row["target"]), str(row["sha256"]), ", ".join(map(str, row["patches"]))) for row in rows]
    except (ValueError, KeyError, TypeError):
        want = f"{place}, which records what {', '.join(named)} made"
        raise Undecidable(want, f"{text[:60]!r}" if text else "no such file") from None
