"""What a field of a model wants, in words, read from the model's JSON schema."""

from functools import cache
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]


@cache
def schema_of(model: type[BaseModel]) -> Schema:
    """The JSON schema of a model, with its `$defs`."""
    return model.model_json_schema()


def wanted(model: type[BaseModel], path: tuple[str | int, ...]) -> str:
    """`an integer >= 0` for the field at this path; `a value` where the schema does not say."""
    root = schema_of(model)
    return _words(_at(root, root, path), root)


def fields(model: type[BaseModel], path: tuple[str | int, ...]) -> tuple[str, ...]:
    """The fields that the mapping at this path may have; empty where any name is welcome."""
    root = schema_of(model)
    branches = _branches(_at(root, root, path), root)
    return tuple(name for branch in branches for name in branch.get("properties", {}))


def _at(root: Schema, schema: Schema, path: tuple[str | int, ...]) -> Schema:
    for part in path:
        steps = [step for branch in _branches(schema, root) if (step := _step(branch, part)) is not None]
        schema = steps[0] if steps else {}
    return schema


def _step(schema: Schema, part: str | int) -> Schema | None:
    if isinstance(part, int):
        items = schema.get("items")
        return items if isinstance(items, dict) else None
    if part in schema.get("properties", {}):
        inner: Schema = schema["properties"][part]
        return inner
    rest = schema.get("additionalProperties")
    return rest if isinstance(rest, dict) else None


def _branches(schema: Schema, root: Schema) -> list[Schema]:
    """The alternatives of a union, references followed; null is left out, since leaving the field out says the same."""
    if "$ref" in schema:
        return _branches(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root)
    if "anyOf" in schema:
        return [leaf for branch in schema["anyOf"] for leaf in _branches(branch, root)]
    return [] if schema.get("type") == "null" else [schema]


def _words(schema: Schema, root: Schema) -> str:
    return " or ".join(dict.fromkeys(_one(branch, root) for branch in _branches(schema, root))) or "a value"


def _one(schema: Schema, root: Schema) -> str:
    if "const" in schema or "enum" in schema:
        return " or ".join(f'"{value}"' for value in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return f"{'an integer' if kind == 'integer' else 'a number'}{_range(schema)}"
    if kind == "string":
        least = schema.get("minLength")
        return f"text of at least {least} characters" if least else "text"
    if kind == "array":
        entries = _words(schema["items"], root) if schema.get("items") else "values"
        least = f", at least {schema['minItems']}" if schema.get("minItems") else ""
        return f"a list{least}, each {entries}"
    if kind == "object":
        names = ", ".join(schema.get("properties", {}))
        free = 'a mapping, such as {"name": 1}'
        return f"a mapping ({names})" if names and len(names) <= 60 else "a mapping" if names else free
    return "true or false" if kind == "boolean" else "a value"


def _range(schema: Schema) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f" from {least} to {most}"
    bounds = {"exclusiveMinimum": ">", "minimum": ">=", "exclusiveMaximum": "<", "maximum": "<="}
    parts = [f"{sign} {schema[name]:g}" for name, sign in bounds.items() if name in schema]
    return f" {' and '.join(parts)}" if parts else ""
