"""vLLM's config classes as data: fields, what pydantic asks of each, names of its Python validators. See dump.py."""

import argparse
import ast
import enum
import hashlib
import inspect
import os
import textwrap

KEPT = (
    "gt",
    "ge",
    "lt",
    "le",
    "multiple_of",
    "min_length",
    "max_length",
    "strict",
    "pattern",
    "expected",
    "variadic_item_index",
)
INNER = ("schema", "items_schema", "keys_schema", "values_schema", "choices")


class Configs:
    """Config classes as data: fields with what pydantic asks of each, defaults, and the names of Python validators."""

    def __init__(self):
        self.found = {}
        self.rules = {}
        self._refs = {}
        self._schemas = {}

    def add(self, cls):
        """Describe a config class and those in it; its name."""
        if cls.__name__ not in self.found:
            self.found[cls.__name__] = {}
            self._describe(cls.__name__, self._schema(cls))
        return cls.__name__

    def field(self, cls, name):
        """What pydantic will ask of one field, or None where it asks nothing that can be written down."""
        try:
            schema = self._schema(cls)
        except Exception:  # some classes of the command line are plain dataclasses with types that pydantic refuses
            return None
        while schema["type"] != "dataclass-args":
            schema = schema["schema"]
        for field in schema["fields"]:
            if field["name"] == name:
                return self._shrink(field["schema"], later=True)
        return None

    def _schema(self, cls):
        if cls not in self._schemas:
            from pydantic import TypeAdapter

            schema = TypeAdapter(cls).core_schema
            if schema["type"] == "definitions":
                self._refs.update({one["ref"]: one for one in schema["definitions"]})
                schema = schema["schema"]
            while schema["type"] == "definition-ref":
                schema = self._refs[schema["schema_ref"]]
            self._schemas[cls] = schema
        return self._schemas[cls]

    def _describe(self, name, schema):
        rules = []
        while schema["type"] != "dataclass":
            rules.append([schema["type"].removeprefix("function-"), self._rule(schema["function"]["function"])])
            schema = schema["schema"]
        if schema.get("post_init"):
            rules.append(["after", self._rule(schema["cls"].__post_init__)])
        schema = schema["schema"]
        while schema["type"] != "dataclass-args":
            rules.append([schema["type"].removeprefix("function-"), self._rule(schema["function"]["function"])])
            schema = schema["schema"]
        fields = {}
        for field in schema["fields"]:
            if field.get("init", True) and not field.get("init_only"):
                fields[field["name"]] = self._shrink(field["schema"])
        # The innermost rule runs first: __post_init__, then model validators from the inside out.
        self.found[name] = {"fields": fields, **({"rules": rules[::-1]} if rules else {})}

    def _rule(self, function):
        function = getattr(function, "__func__", function)
        name = function.__qualname__
        self.rules[name] = digest(function)
        return name

    def _shrink(self, schema, later=False):
        kind = schema["type"]
        if kind == "definition-ref":
            return self._shrink(self._refs[schema["schema_ref"]], later)
        if kind == "definitions":
            self._refs.update({one["ref"]: one for one in schema["definitions"]})
            return self._shrink(schema["schema"], later)
        if kind == "dataclass":
            return {"type": "config", "name": self.add(schema["cls"])}
        if kind == "default":
            return {**self._shrink(schema["schema"], later), **default_of(schema), "required": False}
        if kind == "enum":
            members = {member.name: plain(member.value) for member in schema["members"]}
            return {"type": "enum", "members": members, "sub_type": schema.get("sub_type")}
        if kind in ("json-or-python", "lax-or-strict"):
            path = "path_validator" in str(schema)
            inner = schema["json_schema" if kind == "json-or-python" else "lax_schema"]
            return {"type": "path"} if path else self._shrink(inner, later)
        if kind.startswith("function-"):
            return self._function(schema, later)
        if kind in ("is-instance", "is-subclass", "callable", "custom-error", "counter"):
            return {"type": "any"}
        found = {"type": kind, **{key: plain(schema[key]) for key in KEPT if key in schema}}
        for key in INNER:
            if isinstance(inner := schema.get(key), list):
                found[key] = [self._shrink(one[0] if isinstance(one, tuple) else one, later) for one in inner]
            elif inner is not None:
                found[key] = self._shrink(inner, later)
        return found

    def _function(self, schema, later):
        name = getattr(schema["function"]["function"], "__qualname__", "")
        if schema["type"] != "function-plain" and name in self.config_rules(schema):
            return {"type": "config", "name": self.add(self.config_rules(schema)[name])}
        inner = self._shrink(schema["schema"], later) if "schema" in schema else {"type": "any"}
        if name.endswith("._skip_none_validation"):
            return {"type": "nullable", "schema": inner}
        if later:
            return {"type": "any"}  # the engine may turn the word into something else first
        rule = self._rule(schema["function"]["function"])
        return {"type": schema["type"], "rule": rule, "schema": inner}

    def config_rules(self, schema):
        """Validators around a whole config belong to that config: their names, with the class."""
        names, at = [], schema
        while at["type"].startswith("function-") and "schema" in at:
            names.append(getattr(at["function"]["function"], "__qualname__", ""))
            at = at["schema"]
        if at["type"] != "dataclass":
            return {}
        cls = at["cls"]
        return {name: cls for name in names if name.startswith(f"{cls.__name__}.")}


def default_of(schema):
    """`default` as data, where it has a plain form."""
    value = schema.get("default")
    if "default_factory" in schema:
        if schema.get("default_factory_takes_data"):
            return {}
        try:
            value = schema["default_factory"]()
        except Exception:
            return {}
    found = plain(value)
    return {} if found is None and value is not None else {"default": found}


def plain(value):
    """A default as data; None where it has no plain form."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, set | frozenset | tuple):
        return sorted(map(str, value)) if isinstance(value, set | frozenset) else [plain(v) for v in value]
    if isinstance(value, str):
        home = os.path.expanduser("~")
        return None if value == argparse.SUPPRESS else value.replace(home, "~") if len(home) > 1 else value
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value if value is None or isinstance(value, bool | int | float) else None


def digest(function):
    """12 digits of a function's source, without its indentation and its docstring."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return ""
    body = tree.body[0]
    if isinstance(body, ast.FunctionDef) and ast.get_docstring(body) is not None:
        body.body = body.body[1:]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:12]
