"""What changed between two engine versions, as their catalogs tell."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from fleet.argv.catalog import Catalog, FlagInfo
from fleet.frozen import Frozen

Kind = Literal["added", "removed", "renamed", "changed"]


class Change(Frozen):
    """One difference: of a flag, of a key of its JSON, of an environment variable, of a capability."""

    about: Literal["flag", "key", "variable", "capability"]
    kind: Kind
    name: str
    what: str = ""
    """What of it changed: type, choices, default, aliases, nargs."""
    old: Any = None
    new: Any = None

    def __str__(self) -> str:
        if self.kind == "renamed":
            return f"{self.about} {self.name} is now {self.new}"
        if self.kind == "changed":
            return f"{self.about} {self.name}: {self.what}: {self._step}"
        return f"{self.about} {self.name} {self.kind}"

    @property
    def _step(self) -> str:
        if isinstance(self.old, list) and isinstance(self.new, list) and self.what != "default":
            gone = [f"-{one}" for one in self.old if one not in self.new]
            came = [f"+{one}" for one in self.new if one not in self.old]
            return " ".join([*gone, *came]) or "another order"
        if isinstance(self.old, dict) and isinstance(self.new, dict):
            gone = [f"-{key}" for key in self.old if key not in self.new]
            came = [f"+{key}" for key in self.new if key not in self.old]
            other = [f"~{key}" for key, one in self.old.items() if key in self.new and one != self.new[key]]
            return " ".join([*gone, *came, *other])
        return f"{_short(self.old)} -> {_short(self.new)}"


def differences(old: Catalog, new: Catalog) -> list[Change]:
    """Every change, flags first."""
    return [*_flags(old, new), *_keys(old, new), *_variables(old, new), *_capabilities(old, new)]


def _flags(old: Catalog, new: Catalog) -> Iterator[Change]:
    was, now = _named(old), _named(new)
    gone, came = [n for n in was if n not in now], [n for n in now if n not in was]
    renamed = dict(_renamed({n: was[n] for n in gone}, {n: now[n] for n in came}))
    for name, other in renamed.items():
        yield Change(about="flag", kind="renamed", name=name, new=other)
    for name in gone:
        if name not in renamed:
            yield Change(about="flag", kind="removed", name=name)
    for name in came:
        if name not in renamed.values():
            yield Change(about="flag", kind="added", name=name, new=_said(now[name]))
    for name, flag in was.items():
        same = now.get(renamed.get(name, name))
        if same is not None:
            yield from _changes("flag", name, _said(flag), _said(same))


def _named(catalog: Catalog) -> dict[str, FlagInfo]:
    return {flag.flag: flag for flag in catalog.flags if flag.flag}


def _renamed(gone: Mapping[str, FlagInfo], came: Mapping[str, FlagInfo]) -> Iterator[tuple[str, str]]:
    """One went, one came: the same flag where both are of one type, and set one field or have nearly one name."""
    for name, flag in gone.items():
        for other, new in came.items():
            close = difflib.SequenceMatcher(None, name, other).ratio() > 0.9
            if flag.type == new.type and flag.action == new.action and (close or flag.dest == new.dest):
                yield name, other
                break


def _said(flag: FlagInfo) -> dict[str, Any]:
    """What an operator can see of a flag."""
    return {
        "type": flag.type if flag.takes_value else flag.action,
        "choices": None if flag.choices is None else [one for one in flag.choices if one not in (None, "None")],
        "known": None if flag.known is None else list(flag.known),
        "default": flag.default,
        "aliases": [*flag.aliases, *(name for name in flag.negative if not name.startswith("--no-"))],
        "nargs": flag.nargs,
        "deprecated": flag.deprecated,
    }


def _changes(about: Literal["flag", "key"], name: str, was: dict[str, Any], now: dict[str, Any]) -> Iterator[Change]:
    for what, old in was.items():
        if old != now[what]:
            yield Change(about=about, kind="changed", name=name, what=what, old=old, new=now[what])


def keys_of(catalog: Catalog) -> dict[str, dict[str, Any]]:
    """Every key of every JSON flag, dotted, such as --speculative-config.method, with what pydantic asks of it."""
    found: dict[str, dict[str, Any]] = {}

    def add(path: str, config: str, depth: int) -> None:
        for key, schema in catalog.configs[config].fields.items():
            found[f"{path}.{key}"] = schema
            inner: Any = schema
            while isinstance(inner, dict) and inner.get("type") != "config":
                inner = inner.get("schema")
            if isinstance(inner, dict) and depth < 4:
                add(f"{path}.{key}", inner["name"], depth + 1)

    for flag in catalog.flags:
        config = flag.config or flag.later
        if config is not None and flag.flag is not None:
            add(flag.flag, config, 0)
    return found


def _keys(old: Catalog, new: Catalog) -> Iterator[Change]:
    flags = {flag.flag for flag in old.flags} & {flag.flag for flag in new.flags}
    was = {key: value for key, value in keys_of(old).items() if key.split(".")[0] in flags}
    now = {key: value for key, value in keys_of(new).items() if key.split(".")[0] in flags}
    for name in sorted(was.keys() | now.keys()):
        if name not in now:
            yield Change(about="key", kind="removed", name=name)
        elif name not in was:
            yield Change(about="key", kind="added", name=name)
        else:
            yield from _changes("key", name, _asked(was[name]), _asked(now[name]))


def _asked(schema: dict[str, Any]) -> dict[str, Any]:
    choices = _choices(schema)
    kind = "choice" if choices is not None else spoken(schema)
    return {"type": kind, "choices": choices, "default": schema.get("default")}


def _choices(schema: Any) -> list[Any] | None:
    """What a key may be, where that is a list of names."""
    while "schema" in schema:
        schema = schema["schema"]
    if schema.get("type") == "enum":
        return list(schema["members"])
    return list(schema["expected"]) if schema.get("type") == "literal" else None


def spoken(schema: Any) -> str:
    """A schema in a few words: int > 0, one of a|b|c, object of PassConfig."""
    kind = schema.get("type")
    if kind == "nullable":
        return f"{spoken(schema['schema'])} or null"
    if kind == "literal":
        return "one of " + "|".join(map(str, schema["expected"]))
    if kind == "enum":
        return "one of " + "|".join(schema["members"])
    if kind == "union":
        return " or ".join(spoken(one) for one in schema["choices"])
    if kind == "config":
        return f"object of {schema['name']}"
    if kind in ("list", "set", "tuple"):
        items = schema.get("items_schema", {"type": "any"})
        return f"{kind} of {' and '.join(map(spoken, items)) if isinstance(items, list) else spoken(items)}"
    if "schema" in schema:
        return spoken(schema["schema"])
    signs = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
    return " ".join(
        [str(kind), *(f"{sign} {schema[key]:g}" for key, sign in signs.items() if schema.get(key) is not None)]
    )


def _variables(old: Catalog, new: Catalog) -> Iterator[Change]:
    was, now = old.environment, new.environment
    for name in sorted(was.keys() | now.keys()):
        if name not in now:
            yield Change(about="variable", kind="removed", name=name)
        elif name not in was:
            yield Change(about="variable", kind="added", name=name)
        elif was[name].default != now[name].default:
            before, after = was[name].default, now[name].default
            yield Change(about="variable", kind="changed", name=name, what="default", old=before, new=after)


def _capabilities(old: Catalog, new: Catalog) -> Iterator[Change]:
    for name in sorted(old.capabilities.keys() | new.capabilities.keys()):
        was, now = old.capabilities.get(name), new.capabilities.get(name)
        before, after = was.value if was else None, now.value if now else None
        if before != after:
            yield Change(about="capability", kind="changed", name=name, what="value", old=before, new=after)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:99]}…"
