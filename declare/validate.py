"""Located YAML into a model; pydantic's errors into our wording, each at the line that the value came from."""

from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from declare.located import Located
from declare.problem import found, line, unknown
from declare.wanted import fields, wanted

Model = TypeVar("Model", bound=BaseModel)
Path = tuple[str | int, ...]


def build(
    model: type[Model], tree: Located, problems: list[str], also: tuple[str, ...] = (), **given: Any
) -> Model | None:
    """The model, or None with the reasons added to `problems`.

    `given` are fields that do not stand in the file; `also` are fields of the file that are no part of the model.
    """
    misnamed = [(name, entry) for name, entry in tree.entries() if name in given]
    if misnamed:
        known = _known(model, also, given)
        problems.extend(unknown(entry.origin, name, known) for name, entry in misnamed)
        return None
    if not isinstance(tree.value, dict):
        problems.append(line(tree.origin, wanted(model, ()), found(tree)))
        return None
    try:
        return model.model_validate({**tree.plain(), **given})
    except ValidationError as error:
        problems.extend(_lines(model, tree, error.errors(), _known(model, also, given)))
        return None


def _known(model: type[BaseModel], also: tuple[str, ...], given: dict[str, Any]) -> set[str]:
    """The fields that the file may have; asked only where one is wrong, for a model's schema takes a while to make."""
    return {*fields(model, ()), *also} - set(given)


def _lines(model: type[BaseModel], tree: Located, errors: Iterable[ErrorDetails], known: set[str]) -> Iterable[str]:
    placed = [(error, *_place(tree, error)) for error in errors]
    said: set[Path] = set()
    for error, path, inside_union in placed:
        deeper = any(len(other) > len(path) and other[: len(path)] == path for _, other, _ in placed)
        if path in said or (inside_union and deeper):
            continue
        said.add(path)
        yield _line(model, tree, error, path, known)


def _place(tree: Located, error: ErrorDetails) -> tuple[Path, bool]:
    """The path of an error in the file, and whether pydantic's own path went on into a branch of a union.

    Pydantic puts the names of union branches into the path; they are the parts that the file does not have.
    """
    names_a_field = error["type"] in ("missing", "extra_forbidden")
    *_, last = error["loc"] or ("",)
    steps = error["loc"][:-1] if names_a_field else error["loc"]
    here, path, left_over = tree, [], False
    for part in steps:
        entry = _entry(here, part)
        if entry is None:
            left_over = True
        else:
            here, left_over = entry, False
            path.append(part)
    if names_a_field and isinstance(here.value, dict):
        return (*path, last), False
    return tuple(path), left_over or names_a_field


def _entry(tree: Located, part: str | int) -> Located | None:
    if isinstance(tree.value, list):
        return tree.value[part] if isinstance(part, int) and part < len(tree.value) else None
    return tree.get(str(part))


def _line(model: type[BaseModel], tree: Located, error: ErrorDetails, path: Path, known: set[str]) -> str:
    here = tree
    for part in path[:-1] if error["type"] in ("missing", "extra_forbidden") else path:
        here = _entry(here, part) or here
    if error["type"] == "missing":
        origin = here.origin.below(path[-1])
        return line(origin, wanted(model, path), "nothing")
    if error["type"] == "extra_forbidden":
        entry = here.get(str(path[-1])) or here
        return unknown(entry.origin, str(path[-1]), fields(model, path[:-1]) if path[:-1] else known)
    if error["type"] == "value_error":
        return _own_words(here, str(error["ctx"]["error"]))
    unquoted = error["type"] == "string_type" and isinstance(here.value, (int, float))
    return line(here.origin, wanted(model, path), found(here) + ("; put it in quotes" if unquoted else ""))


def _own_words(here: Located, text: str) -> str:
    """A validator's text: `want X, found Y`, or `FIELD: want X, found Y` where it speaks of one field of a mapping."""
    field, colon, rest = text.partition(": ")
    entry = here.get(field) if colon and rest.startswith("want ") else None
    at, text = (entry, rest) if entry else (here, text)
    want, _, got = text.removeprefix("want ").partition(", found ")
    return line(at.origin, want, found(at) if at.origin.secret or not got else got)
