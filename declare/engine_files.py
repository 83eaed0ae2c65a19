"""Files of an engine that lies here: an unpacked folder, or a wheel. For a look before it is rolled out."""

import re
import zipfile
from collections.abc import Iterable
from pathlib import Path

from fleet.engines.engine_files import EngineFiles

_VERSION = re.compile(r"vllm(?:_cpu)?-(\d+\.\d+\.\d+[^-]*?)(?:-|\.dist-info)")


class FilesError(ValueError):
    """No engine can be read there; the text says what was wanted and what was found."""


def read_files(source: Path, wanted: Iterable[str], version: str | None = None) -> EngineFiles:
    """The wanted files (`vllm/...`) of a wheel, a folder that has `vllm/`, or the folder `vllm` itself.

    The version is that of the wheel's name or of its .dist-info, unless it is given. Raises FilesError.
    """
    if source.is_dir():
        return _of_folder(source, wanted, version)
    if zipfile.is_zipfile(source):
        return _of_wheel(source, wanted, version)
    raise FilesError(f"{source}: want a folder with vllm/ in it, or a wheel, found neither")


def _of_folder(source: Path, wanted: Iterable[str], version: str | None) -> EngineFiles:
    root = source.parent if source.name == "vllm" and not (source / "vllm").is_dir() else source
    if not (root / "vllm").is_dir():
        raise FilesError(f"{source}: want a folder with vllm/ in it, found none; is it the packages' folder?")
    found = {path: (root / path).read_bytes() for path in wanted if (root / path).is_file()}
    names = [path.name for path in sorted(root.glob("vllm*.dist-info"))]
    return EngineFiles(version=_version(names, version, source), files=found)


def _of_wheel(source: Path, wanted: Iterable[str], version: str | None) -> EngineFiles:
    try:
        with zipfile.ZipFile(source) as wheel:
            names = set(wheel.namelist())
            found = {path: wheel.read(path) for path in wanted if path in names}
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError) as error:
        raise FilesError(f"{source}: want a wheel, found {error}") from None
    if not any(name.startswith("vllm/") for name in names):
        raise FilesError(f"{source}: want a wheel of vLLM, found no vllm/ in it")
    return EngineFiles(version=_version([source.name], version, source), files=found)


def _version(names: list[str], given: str | None, source: Path) -> str:
    versions = [match[1] for name in names if (match := _VERSION.match(name))]
    if given is None and not versions:
        raise FilesError(f"{source}: want the engine's version, found no name that tells it; give it with --engine")
    return given or versions[0]
