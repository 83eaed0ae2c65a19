"""What `vllm serve` of one version accepts, as JSON on stdout. Run by that version's interpreter, without our packages.

The flags are read from the real parser, the keys of its JSON arguments from the real pydantic configs. What cannot be
written as data (validators in Python) is named, with a digest of its source: fleet/argv/rules.py knows what they do.
"""

import contextlib
import importlib
import json
import sys

from capabilities import capabilities
from dump_configs import Configs, digest
from dump_flags import MARK, flag_of
from dump_registries import environment, tables

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


if __name__ == "__main__":
    main()
