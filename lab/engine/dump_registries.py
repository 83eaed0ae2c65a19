"""Names that vLLM registers and looks up, and the environment variables that it reads. See dump.py."""

import ast
import contextlib
import importlib
import inspect


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
