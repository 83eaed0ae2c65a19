"""Would a patch apply to the files of an engine that it was, or was not, written for?"""

import hashlib
from collections.abc import Sequence
from typing import Literal

from fleet.engines.patch import Patch, PatchError, apply, full_version, patched, unneeded
from fleet.frozen import Frozen

Answer = Literal["applies", "anchors fit", "unneeded", "does not apply"]


class EngineFiles(Frozen):
    """Files of one engine by their path below the packages; one that is not there has no entry."""

    version: str
    files: dict[str, bytes]


class Fit(Frozen):
    """What would come of one patch of one file. `sha256`: of the file that is there."""

    patch: str
    path: str
    answer: Answer
    why: str = ""
    sha256: str | None = None

    @property
    def good(self) -> bool:
        """May it be rolled out as it is?"""
        return self.answer in ("applies", "unneeded")


def fits(engine: EngineFiles, patches: Sequence[Patch]) -> tuple[Fit, ...]:
    """One answer a patch and file, in order.

    `applies`: the bytes are those that it was written for. `anchors fit`: they are not, but every anchor is there once
    and the result compiles here, with the interpreter that runs this; what it does must be tested, and its sha256
    entered.
    """
    return tuple(_fit(engine, patch, path) for patch in patches for path in (file.path for file in patch.files))


def _fit(engine: EngineFiles, patch: Patch, path: str) -> Fit:
    content = engine.files.get(path)
    if unneeded(patch, engine.version):
        why = f"the engine does without from {patch.unneeded_from} on"
        return Fit(patch=patch.name, path=path, answer="unneeded", why=why)
    if content is None:
        return Fit(patch=patch.name, path=path, answer="does not apply", why=f"{engine.version} has no such file")
    found = {"patch": patch.name, "path": path, "sha256": hashlib.sha256(content).hexdigest()}
    try:
        apply(path, content, engine.version, [patch])
        return Fit(answer="applies", **found)
    except PatchError as error:
        why = str(error)
    chain = [(patch, file) for file in patch.files if file.path == path]
    try:
        compile(patched(path, content, chain), path, "exec", dont_inherit=True)
    except PatchError as error:
        return Fit(answer="does not apply", why=str(error), **found)
    except (SyntaxError, ValueError) as error:
        return Fit(answer="does not apply", why=f"the result does not compile: {error}", **found)
    return Fit(answer="anchors fit", why=_unknown(engine, patch, why), **found)


def _unknown(engine: EngineFiles, patch: Patch, why: str) -> str:
    version = full_version(engine.version)
    if version in patch.versions:
        return why
    return f"not written for {version}; test it there, then enter this sha256"
