"""What `vllm serve` of one version accepts, as JSON on stdout. Run by that version's interpreter, without our packages.

The flags are read from the real parser, the keys of its JSON arguments from the real pydantic configs. What cannot be
written as data (validators in Python) is named, with a digest of its source: fleet/argv/rules.py knows what they do.
"""

import argparse
import ast
import contextlib
import enum
import hashlib
import importlib
import inspect
import json
import os
import sys
import textwrap

from capabilities import capabilities

PARSER_MODULES = (
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.common.cli_args",
    "vllm.entrypoints.openai.cli_args",
)
JSON_LATER = {  # flags whose JSON is only loaded by the parser; the engine builds this config from it at its start
    "speculative_config": "vllm.config.SpeculativeConfig",
    "watermark_config": "vllm.config.watermarking.WatermarkConfig",
    "diffusion_config": "vllm.config.DiffusionConfig",
}
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
MARK = "origin:"


def main() -> None:
    """Print the dump."""
    with contextlib.redirect_stdout(sys.stderr):
        found = dump()
    json.dump(found, sys.stdout)


def serve_parser():
    """The top parser with its `serve`, as `vllm` itself makes them; every action tells in its help where it is from."""
    import vllm.engine.arg_utils as arg_utils
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    real = arg_utils.get_kwargs

    def marked(cls):
        found = real(cls)
        for name, kwargs in found.items():
            kwargs["help"] = f"{MARK}{cls.__module__}:{cls.__qualname__}:{name}"
        return found

    arg_utils.get_kwargs = marked
    top = FlexibleArgumentParser(prog="vllm")
    top.add_argument("-v", "--version", action="version", version="")
    serve = top.add_subparsers(required=False, dest="subparser").add_parser("serve")
    for name in PARSER_MODULES:
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as missing:
            if missing.name is None or not name.startswith(missing.name):
                raise  # it is there, and something that it needs is not
            continue
        module.make_arg_parser(serve)
        return top, serve
    raise SystemExit(f"no parser of `vllm serve` in any of {', '.join(PARSER_MODULES)}")


def dump():
    """The whole description."""
    import vllm

    _, serve = serve_parser()
    configs = Configs()
    flags = [flag_of(serve, action, configs) for action in serve._actions]
    for dest, place in JSON_LATER.items():
        module, _, name = place.rpartition(".")
        with contextlib.suppress(ImportError, AttributeError):
            cls = getattr(importlib.import_module(module), name)
            configs.add(cls)
            for flag in flags:
                if flag["dest"] == dest:
                    flag["later"] = cls.__name__
    method = configs.found.get("SpeculativeConfig", {}).get("fields", {}).get("method", {})
    methods = sorted(literals(method))
    return {
        "version": vllm.__version__,
        "parser": digest(type(serve).parse_args),
        "flags": flags,
        "configs": configs.found,
        "rules": dict(sorted(configs.rules.items())),
        "tables": tables(),
        "environment": environment(),
        "capabilities": capabilities(vllm.__version__, flags, methods),
    }


def literals(schema):
    """Every literal in a schema."""
    inner = [schema.get("schema"), *schema.get("choices", ())]
    return {*schema.get("expected", ()), *(one for part in inner if part for one in literals(part))}


def flag_of(parser, action, configs):
    """One action of the parser, without what is the default of the description."""
    names = [text for text, one in parser._option_string_actions.items() if one is action]
    long = [name for name in names if name.startswith("--")]
    main_name = next((name for name in action.option_strings if name.startswith("--")), None)
    kind, inner = type_of(action.type)
    found = {"flag": main_name, "dest": action.dest, "action": action_of(action), "type": kind}
    negative = [n for n in long if is_negative(action, n)]
    rest = [n for n in names if n != main_name and n not in negative]
    deprecated = getattr(parser, "_deprecated", ())
    origin = action.help if isinstance(action.help, str) and action.help.startswith(MARK) else ""
    if inner is not None:
        found["config"] = configs.add(inner)
    if origin:
        _, module, cls, field = origin.split(":")
        found["origin"] = f"{cls}.{field}"
        later = configs.field(getattr(importlib.import_module(module), cls), field)
        if later is not None and inner is None:
            found["field"] = later
    extra = {
        "aliases": rest,
        "negative": negative,
        "nargs": action.nargs if action.nargs not in (0, None) else None,
        "choices": None if action.choices is None else list(action.choices),
        "known": list(action.metavar) if isinstance(action.metavar, list | tuple) else None,
        "const": None if found["action"] != "store" else action.const,
        "deprecated": action in deprecated or getattr(action, "deprecated", False) or deprecated_class(action) or None,
    }
    found.update({key: value for key, value in extra.items() if value not in (None, [], ())})
    if (default := plain(action.default)) is not None:
        found["default"] = default
    return found


def deprecated_class(action):
    return "Deprecated" in type(action).__name__


def action_of(action):
    """store, switch (no value), boolean (--x and --no-x), append, or the name of a class of vLLM's own."""
    if isinstance(action, argparse.BooleanOptionalAction):
        return "boolean"
    known = {"_StoreAction": "store", "_StoreTrueAction": "switch", "_AppendAction": "append", "_HelpAction": "help"}
    return known.get(type(action).__name__, type(action).__name__)


def is_negative(action, name):
    """Does this spelling of a boolean flag mean false?"""
    if not isinstance(action, argparse.BooleanOptionalAction):
        return False
    negative = getattr(action, "negative_option_strings", None)
    return name.startswith("--no-") if negative is None else name in negative


def closure(function):
    code = getattr(function, "__code__", None)
    cells = getattr(function, "__closure__", None) or ()
    return dict(zip(code.co_freevars, (c.cell_contents for c in cells), strict=True)) if code else {}


def type_of(kind):
    """How one word becomes a value, outermost first ("optional int"), and the config that it builds."""
    if kind is None:
        return "str", None
    name = getattr(kind, "__qualname__", str(kind))
    if name.startswith(("optional_type.", "parse_type.")):
        inner, config = type_of(closure(kind)["return_type"])
        return (f"optional {inner}" if name.startswith("optional") else inner), config
    if name.endswith("parse_dataclass"):
        return "config", kind.__defaults__[0]
    if name.endswith("<lambda>"):
        return lambda_of(kind), None
    return {"loads": "json", "union_dict_and_str": "json or str"}.get(name, name), None


def lambda_of(kind):
    """The two lambdas of the parser, told apart by what they do."""
    probe = kind("A-b, 7")
    return {"a_b, 7": "lower with underscores", str(["A-b", 7]): "device ids"}.get(str(probe), f"lambda {digest(kind)}")


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


def tables():
    """Names that vLLM's own validators look up."""
    found = {}

    def note(key, read):
        with contextlib.suppress(Exception):
            found[key] = read()

    def quantization():
        module = importlib.import_module("vllm.config.quantization")
        shorthands = module._ONLINE_SHORTHANDS
        found["online_shorthands"] = {
            name: [kind for kind in ("linear", "moe") if getattr(args, kind) is not None]
            for name, args in shorthands.items()
        }
        return sorted(module.QUANT_KEY_NAMES)

    def kinds():
        from vllm.v1.kv_cache_interface import KVCacheSpecKind

        return sorted(kind.value for kind in KVCacheSpecKind)

    def registered(module, name):
        return sorted(getattr(importlib.import_module(module), name).list_registered())

    note("quant_keys", quantization)
    note("kv_cache_kinds", kinds)
    note(
        "attention_backends",
        lambda: sorted(importlib.import_module("vllm.v1.attention.backends.registry").AttentionBackendEnum.__members__),
    )
    note("removed_pooling_tasks", lambda: sorted(importlib.import_module("vllm.tasks")._REMOVED_POOLING_TASK_MESSAGES))
    note("tool_parsers", lambda: registered("vllm.tool_parsers", "ToolParserManager"))
    note("reasoning_parsers", lambda: registered("vllm.reasoning", "ReasoningParserManager"))
    note(
        "quantization",
        lambda: sorted(importlib.import_module("vllm.model_executor.layers.quantization").QUANTIZATION_METHODS),
    )
    note(
        "connectors",
        lambda: sorted(
            importlib.import_module("vllm.distributed.kv_transfer.kv_connector.factory").KVConnectorFactory._registry
        ),
    )
    return found


def environment():
    """Environment variables that vLLM reads, with type and default as its own annotations say."""
    import vllm.envs

    tree = ast.parse(inspect.getsource(vllm.envs))
    typed = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            value = ast.unparse(node.value) if node.value is not None else None
            typed[node.target.id] = {"type": ast.unparse(node.annotation), "default": value}
    return {name: typed.get(name, {"type": None, "default": None}) for name in sorted(vllm.envs.environment_variables)}


if __name__ == "__main__":
    main()
