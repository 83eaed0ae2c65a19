"""What a version can do beyond its flags, each with how it is known. Run by that version's interpreter, from dump.py.

Where vLLM's code decides it, that code is run (on stubbed configs) or the name in it is read; what only experience
tells is said to be that.
"""

import ast
import contextlib
import importlib
import importlib.util
import inspect
import re

CAPABILITIES = (
    (7, 5),
    (8, 0),
    (8, 6),
    (8, 9),
    (9, 0),
    (10, 0),
    (12, 0),
)  # T4, A100, A10, L40S, H100, B200, RTX PRO 6000
MULTI_NODE = ("--nnodes", "--node-rank", "--master-addr", "--master-port", "--headless")
SPECULATION_UNDER_PP_SINCE = (0, 30)


class Nothing:
    """A config in which nothing is set: every field is this again, false, and equal to nothing else."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __bool__(self):
        return False

    def __call__(self, *args, **kwargs):
        return []

    def __gt__(self, other):
        return False

    __lt__ = __ge__ = __le__ = __gt__


def capabilities(version, flags, methods):
    """Name -> {"value": ..., "source": ...}; what cannot be read in this version is left out."""
    found = {}

    def note(name, read, source):
        with contextlib.suppress(Exception):
            found[name] = {"value": read(), "source": source}

    names = {flag["flag"] for flag in flags}
    minor = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    note("numa_bind", lambda: {"--numa-bind", "--numa-bind-nodes"} <= names, "its parser")
    note("multi_node_flags", lambda: [name for name in MULTI_NODE if name in names], "its parser")
    note(
        "speculation_under_pp",
        lambda: minor >= SPECULATION_UNDER_PP_SINCE,
        "an operator's runs of MTP at PP 2, by image version; the V2 model runner only",
    )
    note(
        "v2_runner_methods",
        lambda: [method for method in methods if not v2_refuses(method, 1)],
        "run: VllmConfig._get_v2_model_runner_unsupported_features with nothing else set",
    )
    note(
        "v2_runner_methods_under_pp",
        lambda: (
            [method for method in methods if not v2_refuses(method, 2)]
            if found["speculation_under_pp"]["value"]
            else []
        ),
        "run: the same at PP 2; none before speculation_under_pp",
    )
    note(
        "custom_all_reduce_sizes",
        lambda: list(
            _class("vllm.distributed.device_communicators.custom_all_reduce", "CustomAllreduce")._SUPPORTED_WORLD_SIZES
        ),
        "read: CustomAllreduce._SUPPORTED_WORLD_SIZES",
    )
    note("stage_sends", stage_sends, "read: IntermediateTensors in vllm/model_executor/models/deepseek_v2.py")
    note(
        "index_sharing_across_stages",
        lambda: any("topk" in name or "indices" in name for name in stage_sends()),
        "read: are sparse-attention indices among what a stage sends on?",
    )
    note(
        "attention_backends",
        attention_backends,
        "run: what each backend of CUDA says of itself; read where it cannot run",
    )
    return found


def _class(module, name):
    return getattr(importlib.import_module(module), name)


def v2_refuses(method, pp):
    """Does the V2 model runner refuse this speculative method at that many stages?"""
    config = Nothing()
    config.speculative_config = Nothing()
    config.speculative_config.__dict__.update(
        method=method, parallel_drafting=False, enable_adaptive_verification=False
    )
    config.speculative_config.__class__ = type("Set", (Nothing,), {"__bool__": lambda self: True})
    config.parallel_config = Nothing()
    config.parallel_config.__dict__.update(pipeline_parallel_size=pp, tensor_parallel_size=1)
    refused = _class("vllm.config", "VllmConfig")._get_v2_model_runner_unsupported_features(config)
    return any("specul" in text or "EAGLE" in text for text in refused)


def stage_sends():
    """Names of the tensors that a stage of a DeepSeek-like model (GLM too) gives to the next."""
    source = inspect.getsource(importlib.import_module("vllm.model_executor.models.deepseek_v2"))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "IntermediateTensors" and node.args:
            keys = [key.value for key in getattr(node.args[0], "keys", []) if isinstance(key, ast.Constant)]
            if keys:
                return keys
    raise LookupError("no IntermediateTensors with names")


def attention_backends():
    """Backend of CUDA -> the KV cache dtypes that it takes and the compute capabilities that it runs on.

    An empty list of dtypes: any. A backend whose libraries are missing here is read from its source; one that cannot be
    read either is left out.
    """
    registry = _class("vllm.v1.attention.backends.registry", "AttentionBackendEnum")
    found = {}
    for name, member in registry.__members__.items():
        if member.value and not re.search(r"ROCM|AITER|XPU|CPU|AMX|NO_ATTENTION|CUSTOM", name):
            with contextlib.suppress(Exception):
                dtypes, runs_on = _imported(member) or _from_source(member.value)
                able = [f"{capability[0]}.{capability[1]}" for capability in CAPABILITIES if runs_on(capability)]
                found[name] = {"kv_cache_dtypes": list(dtypes), "compute_capabilities": able}
    return found


def _imported(member):
    """Its dtypes, and a function that tells of a compute capability; None where it cannot be imported here."""
    from vllm.platforms.interface import DeviceCapability

    try:
        backend = member.get_class()
        backend.supports_compute_capability(DeviceCapability(9, 0))
    except Exception:
        return None
    return backend.supported_kv_cache_dtypes, lambda c: backend.supports_compute_capability(DeviceCapability(*c))


def _from_source(place):
    from vllm.platforms.interface import DeviceCapability

    module, _, name = place.rpartition(".")
    with open(importlib.util.find_spec(module).origin) as file:
        tree = ast.parse(file.read())
    cls = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    dtypes = next(ast.literal_eval(n.value) for n in cls.body if _is_assignment(n, "supported_kv_cache_dtypes"))
    functions = {node.name: node for node in cls.body if isinstance(node, ast.FunctionDef)}
    function = functions["supports_compute_capability"]
    function.decorator_list, function.returns = [], None
    for argument in function.args.args:
        argument.annotation = None
    scope = {"DeviceCapability": DeviceCapability}
    exec(compile(ast.Module([function], []), module, "exec"), scope)  # vLLM's own function, out of its module
    scope["supports_compute_capability"](None, DeviceCapability(9, 0))
    return dtypes, lambda c: scope["supports_compute_capability"](None, DeviceCapability(*c))


def _is_assignment(node, name):
    return isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == name and node.value is not None
