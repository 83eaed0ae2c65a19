"""Finds a probe by name: a site's own first, then the project's."""

import importlib
import importlib.util
import inspect
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Protocol

from probes.evidence import Endpoint, Evidence, Limits

Say = Callable[[str], None]


class Probe(Protocol):
    """A probe as it is called: it raises nothing. `say` gets lines of progress."""

    def __call__(self, endpoint: Endpoint, limits: Limits, say: Say = ...) -> Evidence: ...


Function = Callable[..., Evidence]

_OURS = Path(__file__).resolve().parents[1]
_NAME = re.compile(r"[a-z][a-z0-9_-]*")


class ProbeNotLoaded(Exception):
    """No probe under that name, or a file that is none."""


def load(name: str, folders: Sequence[Path] = ()) -> Probe:
    """The probe NAME of the first folder that has NAME.py; the project's folder is looked at last.

    What is given back raises nothing: where a site's probe raises or gives no Evidence, that is a failed Evidence.
    Raises ProbeNotLoaded with the folders that were searched, or the file and what is wrong with it.
    """
    if not _NAME.fullmatch(name):
        raise ProbeNotLoaded(f"probe {name!r}: wanted a file name without .py, of a-z, 0-9, _ and -")
    searched = [*folders, _OURS]
    for folder in searched:
        path = folder / f"{name}.py"
        if path.is_file():
            return _guarded(name, path, _function(path, _imported(name, path)))
    places = ", ".join(str(folder) for folder in dict.fromkeys(searched))
    raise ProbeNotLoaded(f"probe {name!r}: wanted {name}.py in one of {places}, found none")


def _imported(name: str, path: Path) -> ModuleType:
    if path.resolve().parent == _OURS:
        return importlib.import_module(f"probes.{name}")
    title = f"site_probe_{abs(hash(path.resolve())):x}_{name.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(title, path)
    if spec is None or spec.loader is None:
        raise ProbeNotLoaded(f"probe {path}: Python cannot import it")
    module = importlib.util.module_from_spec(spec)
    sys.modules[title] = module  # models defined in the file look themselves up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[title]
        raise ProbeNotLoaded(f"probe {path}: {type(error).__name__}: {error}") from error
    return module


def _function(path: Path, module: ModuleType) -> Function:
    function = getattr(module, "probe", None)
    if not callable(function):
        raise ProbeNotLoaded(f"probe {path}: wanted a function probe(endpoint, limits), found none")
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        signature = inspect.signature(function)
        raise ProbeNotLoaded(f"probe {path}: wanted probe(endpoint, limits), found probe{signature}") from None
    found: Function = function
    return found


def _tells(function: Function) -> bool:
    """Does it take a third argument, to which it tells how far it is?"""
    try:
        inspect.signature(function).bind(None, None, None)
    except TypeError:
        return False
    return True


def _guarded(name: str, path: Path, function: Function) -> Probe:
    tells = _tells(function)

    def probe(endpoint: Endpoint, limits: Limits, say: Say = lambda _: None) -> Evidence:
        start = time.monotonic()
        try:
            found: object = function(endpoint, limits, say) if tells else function(endpoint, limits)
        except Exception as error:  # a broken probe must not end a rollout without its undo
            found = f"{type(error).__name__}: {error}"
        if isinstance(found, Evidence):
            return found
        shown = found if isinstance(found, str) else f"{type(found).__name__} {found!r}"
        return Evidence(
            probe=name,
            passed=False,
            wanted=f"Evidence from {path}",
            found=endpoint.hide(shown),
            seconds=time.monotonic() - start,
        )

    return probe
