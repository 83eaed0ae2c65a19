"""Patched files of the engine: read from the image on the node, patched here, compiled by the image's interpreter.

All of it happens while the old release serves. Nothing of the image is changed: the result is laid over when the
container starts.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING

from facts.shell import run
from fleet.engines.patch import Applied, PatchError, apply, files_of
from fleet.plan import Plan
from fleet.releases.command import image_argv
from fleet.releases.release import patched_release_files

if TYPE_CHECKING:
    from pyinfra.api.host import Host

# Built-in modules only: the interpreter of an image may have nothing else. A compiled file that is used whatever the
# source says (an unchecked hash, see PEP 552) would win over the patched source.
READ = """
import sys, binascii
for path in sys.argv[1:]:
    with open(path, 'rb') as file:
        print('file', binascii.b2a_base64(file.read(), newline=False).decode())
    folder, _, name = path.rpartition('/')
    try:
        with open(f'{folder}/__pycache__/{name[:-3]}.{sys.implementation.cache_tag}.pyc', 'rb') as file:
            print('compiled', file.read(8)[4])
    except OSError:
        print('compiled -')
print('end')
"""
COMPILE = """
import sys, binascii
for line in sys.stdin:
    path, text = line.split()
    compile(binascii.a2b_base64(text), path, 'exec', dont_inherit=True)
print('compiled all')
"""
TIMEOUT_S = 120


def patch_files(host: "Host", plan: Plan) -> dict[str, str]:
    """Name -> text of what the patches of a plan add to its release; empty where it has none. Raises PatchError."""
    if not plan.patches:
        return {}
    paths = files_of(plan.patches)
    pristine = read_pristine(host, plan, paths)
    applied = [apply(path, pristine[path], plan.service.image.engine, plan.patches) for path in paths]
    _compile(host, plan, applied)
    return patched_release_files(plan, applied)


def _in_image(plan: Plan, program: str, *words: str) -> tuple[str, ...]:
    service = plan.service
    return image_argv(plan.node, service.image.reference, program, *words, mounts=service.mounts)


def read_pristine(host: "Host", plan: Plan, paths: Sequence[str]) -> dict[str, bytes]:
    """The files as the image on the node has them. Raises PatchError with what the node said."""
    packages = plan.service.image.packages
    places = [f"{packages}/{path}" for path in paths]
    output = run(host, _in_image(plan, READ, *places), timeout_s=TIMEOUT_S)
    lines = output.stdout.split("\n")
    if output.reason is not None or lines[-1:] != ["end"] or len(lines) != 2 * len(paths) + 1:
        raise PatchError(
            f"want {', '.join(places)} of {plan.service.image.reference}, found {output.reason or 'a broken answer'}; "
            f"is images.packages right? It says {packages}"
        )
    found = {}
    for number, path in enumerate(paths):
        content, compiled = lines[2 * number : 2 * number + 2]
        if compiled == "compiled 1":
            raise PatchError(
                f"{path}: the image has it compiled with an unchecked hash, so that Python would not read the patched "
                "source; build the image without --invalidation-mode unchecked-hash"
            )
        try:
            found[path] = base64.b64decode(content.removeprefix("file "), validate=True)
        except binascii.Error:
            raise PatchError(f"{path}: want the file in base64, found {content[:80]!r}") from None
    return found


def _compile(host: "Host", plan: Plan, applied: Sequence[Applied]) -> None:
    """Compile the results with the image's own interpreter. Raises PatchError with what it said."""
    stdin = "".join(f"{one.path} {base64.b64encode(one.text.encode()).decode()}\n" for one in applied)
    output = run(host, _in_image(plan, COMPILE), stdin=stdin, timeout_s=TIMEOUT_S)
    if output.reason is not None or "compiled all" not in output.stdout:
        names = ", ".join(dict.fromkeys(name for one in applied for name in one.patches))
        raise PatchError(
            f"want what {names} made to compile in {plan.service.image.reference}, found {output.reason or 'no answer'}"
        )
