"""The engine's files in an image, wherever they lie in it: for a look before anything is declared."""

import base64
import binascii
import re
from collections.abc import Callable, Sequence

from facts.shell import Output
from fleet.declaration import NodeDeclaration
from fleet.engines.engine_files import EngineFiles
from fleet.engines.patch import PatchError
from fleet.releases.command import image_argv

INSPECT = """
import binascii, importlib.util, os, sys
spec = importlib.util.find_spec('vllm')
if spec is None or not spec.origin:
    sys.exit('no package vllm in this image')
root = os.path.dirname(os.path.dirname(spec.origin))
print('packages', root)
for name in sorted(os.listdir(root)):
    if name.startswith('vllm') and name.endswith('.dist-info'):
        print('info', name)
for path in sys.argv[1:]:
    try:
        with open(os.path.join(root, path), 'rb') as file:
            print('file', path, binascii.b2a_base64(file.read(), newline=False).decode())
    except FileNotFoundError:
        pass
print('end')
"""
_INFO = re.compile(r"info vllm(?:_cpu)?-(\d+\.\d+\.\d+.*)\.dist-info")


def inspect_image(
    ask: Callable[[tuple[str, ...]], Output],
    node: NodeDeclaration,
    image: str,
    wanted: Sequence[str],
    version: str | None = None,
) -> EngineFiles:
    """The wanted files of the vLLM in an image that `ask` can run a container of. Raises PatchError."""
    output = ask(image_argv(node, image, INSPECT, *wanted, site=True))
    lines = output.stdout.splitlines()
    if output.reason is not None or lines[-1:] != ["end"]:
        raise PatchError(f"{image}: want an image with vLLM and python3, found {output.reason or 'a broken answer'}")
    told = version or next((match[1] for line in lines if (match := _INFO.fullmatch(line))), None)
    if told is None:
        raise PatchError(f"{image}: want the engine's version, found no dist-info of vllm; give it with --engine")
    files = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "file":
            path, _, content = rest.partition(" ")
            try:
                files[path] = base64.b64decode(content, validate=True)
            except binascii.Error:
                raise PatchError(f"{image}: {path}: want base64, found {content[:60]!r}") from None
    return EngineFiles(version=told, files=files)
