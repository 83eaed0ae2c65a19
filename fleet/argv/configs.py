"""JSON arguments against the config that they build, with pydantic's own core, as vLLM does it.

The catalog holds what pydantic asks of each key in the form of pydantic_core's schemas; a config is a closed typed dict
here instead of a dataclass, and a check written in Python is looked up in rules.py.
"""

import difflib
import enum
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic_core import SchemaValidator, ValidationError, core_schema

from fleet.argv.catalog import Catalog
from fleet.argv.rules import RULES, Context
from fleet.argv.values import Refused, expand_numbers, json_hint, shorten

Schema = Any
"""A schema of pydantic_core, or of the catalog: a mapping whose "type" decides the rest."""
PASSED = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "strict", "pattern")


class Mistake(NamedTuple):
    """One key of a JSON argument that is refused."""

    place: tuple[str, ...]
    """Keys from the outside in; empty for the whole argument."""
    message: str
    suggestion: str | None = None
    found: str | None = None


def check_config(catalog: Catalog, name: str, text: str) -> list[Mistake]:
    """What is wrong with a JSON argument that the parser turns into that config; empty where nothing is."""
    try:
        _validator(catalog, name).validate_json(expand_numbers(text))
    except Refused as refused:
        return [Mistake((), str(refused), refused.suggestion, refused.found)]
    except ValidationError as error:
        return list(_mistakes(catalog, name, error, text))
    return []


def check_value(catalog: Catalog, schema: Schema, value: Any) -> list[Mistake]:
    """What a field of the engine's own config refuses of a value that the parser took."""
    try:
        SchemaValidator(_Builder(catalog).build(schema)).validate_python(value)
    except ValidationError as error:
        return list(_mistakes(catalog, "", error, ""))[:1]
    return []


def check_mapping(catalog: Catalog, name: str, value: Any) -> list[Mistake]:
    """As check_config, of JSON that is loaded already."""
    try:
        _validator(catalog, name).validate_python(value)
    except ValidationError as error:
        return list(_mistakes(catalog, name, error, ""))
    return []


def _validator(catalog: Catalog, name: str) -> SchemaValidator:
    if name not in catalog.validators:
        catalog.validators[name] = SchemaValidator(_Builder(catalog).config(name))
    found: SchemaValidator = catalog.validators[name]
    return found


def _mistakes(catalog: Catalog, name: str, error: ValidationError, text: str) -> Iterator[Mistake]:
    for one in error.errors(include_url=False):
        place = _place(one["loc"]) or tuple(map(str, one["loc"]))
        if one["type"] == "json_invalid":
            yield Mistake((), f"want JSON ({one['msg']})", json_hint(text), shorten(text))
        elif one["type"] == "extra_forbidden":
            key = str(one["loc"][-1])
            known = keys_at(catalog, name, _place(one["loc"][:-1]))
            yield Mistake(place, f"no such key: {key}", _nearest(key, known))
        else:
            cause = one.get("ctx", {}).get("error")
            found = cause.found if isinstance(cause, Refused) else shorten(one["input"])
            message = one["msg"].removeprefix("Value error, ")
            yield Mistake(place, message, found=None if one["type"] == "missing" else found)


def _place(loc: tuple[int | str, ...]) -> tuple[str, ...]:
    """Without what pydantic adds for branches of a union."""
    return tuple(str(part) for part in loc if not (isinstance(part, str) and ("[" in part or "(" in part)))


def _nearest(name: str, known: list[str]) -> str | None:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return close[0] if close else None


def keys_at(catalog: Catalog, config: str, place: tuple[str, ...]) -> list[str]:
    """The keys that a config has at that place."""
    fields = catalog.configs[config].fields
    for key in place:
        inner = _config_in(fields.get(key, {}))
        if inner is None:
            return []
        fields = catalog.configs[inner].fields
    return list(fields)


def _config_in(schema: Schema) -> str | None:
    while isinstance(schema, dict):
        if schema.get("type") == "config":
            return str(schema["name"])
        schema = schema.get("schema")
    return None


class _Builder:
    """Schemas of the catalog become schemas of pydantic_core."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def config(self, name: str) -> Schema:
        """A closed typed dict with the config's checks around it."""
        info = self.catalog.configs[name]
        fields = {}
        for key, schema in info.fields.items():
            built = self.build(schema, key)
            if "default" in schema:
                built = core_schema.with_default_schema(built, default=schema["default"])
            fields[key] = core_schema.typed_dict_field(built, required=schema.get("required", True))
        built = core_schema.typed_dict_schema(fields, extra_behavior="forbid")
        for when, rule in reversed(info.rules):
            built = self._with_rule(f"function-{when}", rule, built, Context(self.catalog.tables, {}, name))
        return built

    def build(self, schema: Schema, key: str = "") -> Schema:
        """One schema, and those in it; `key` is the config's key that it is for."""
        kind = schema["type"]
        if kind == "config":
            return self.config(schema["name"])
        if kind == "path":
            return core_schema.str_schema()
        if kind == "enum":
            cls = _enum(schema)
            return core_schema.enum_schema(cls, list(cls), sub_type=schema.get("sub_type"))
        if kind.startswith("function-"):
            context = Context(self.catalog.tables, _members(schema["schema"]), key)
            return self._with_rule(kind, schema["rule"], self.build(schema["schema"], key), context)
        if kind == "literal":
            return core_schema.literal_schema(schema["expected"])
        if kind == "union":
            return core_schema.union_schema([self.build(one) for one in schema["choices"]])
        built = {"type": kind, **{part: schema[part] for part in PASSED if schema.get(part) is not None}}
        for part in ("schema", "keys_schema", "values_schema"):
            if part in schema:
                built[part] = self.build(schema[part], key)
        if (items := schema.get("items_schema")) is not None:
            built["items_schema"] = [self.build(one) for one in items] if isinstance(items, list) else self.build(items)
            if schema.get("variadic_item_index") is not None:
                built["variadic_item_index"] = schema["variadic_item_index"]
        return built

    def _with_rule(self, kind: str, name: str, inner: Schema, context: Context) -> Schema:
        rule = RULES.get(name)
        if rule is None:
            return inner

        def ask(value: Any) -> Any:
            return rule.check(value, context)

        if kind == "function-before":
            return core_schema.no_info_before_validator_function(ask, inner)
        if kind == "function-plain":
            return core_schema.no_info_plain_validator_function(ask)
        return core_schema.no_info_after_validator_function(ask, inner)


def _members(schema: Schema) -> dict[str, Any]:
    """The members of the enum in a schema, by name."""
    while isinstance(schema, dict):
        if schema.get("type") == "enum":
            return dict(_enum(schema).__members__)
        schema = schema.get("schema") or schema.get("values_schema")
    return {}


_ENUMS: dict[str, type[enum.Enum]] = {}


def _enum(schema: Schema) -> type[enum.Enum]:
    """One class for equal members, so that a rule's member is one of the schema's."""
    members = {name: tuple(v) if isinstance(v, list) else v for name, v in schema["members"].items()}
    key = repr((members, schema.get("sub_type")))
    if key not in _ENUMS:
        base = {"int": enum.IntEnum, "str": enum.StrEnum}.get(schema.get("sub_type") or "", enum.Enum)
        _ENUMS[key] = base("Members", members)
    return _ENUMS[key]
