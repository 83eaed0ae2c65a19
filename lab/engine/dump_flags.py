"""One flag of the real parser as data: spellings, type, choices, default, and the config it builds. See dump.py."""

import argparse
import importlib

from dump_configs import digest, plain

MARK = "origin:"


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
