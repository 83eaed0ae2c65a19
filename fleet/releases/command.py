"""What is run: the engine's argv and env, and the container command around them. Words; nothing is quoted here."""

import json
from collections.abc import Sequence

from fleet.declaration import Mount, NodeDeclaration
from fleet.engines.patch import files_of
from fleet.plan import Plan
from fleet.releases.places import NODE_SCRIPT, RUNTIMES, STATE, unit_name

__all__ = [
    "NODE_SCRIPT",
    "RUNTIMES",
    "STATE",
    "container_argv",
    "container_name",
    "engine_argv",
    "engine_env",
    "patched_files",
    "unit_name",
]

SERVING_FLAGS = ("--api-server-count",)
"""A headless engine refuses to start with them (vLLM, `ServeSubcommand.cmd`)."""


def container_name(service: str) -> str:
    """The container of a service."""
    return f"vllm-{service}"


def patched_files(plan: Plan) -> dict[str, str]:
    """Files of the engine that patches change, below the image's packages -> name of the result in the release."""
    return {path: f"patched-{number}" for number, path in enumerate(files_of(plan.patches))}


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def _extra_flags(plan: Plan) -> list[str]:
    """The owner's own flags: true is the bare flag, false its `--no-` form, a list several words, a mapping JSON."""
    words: list[str] = []
    for name, value in plan.service.flags.items():
        if name in SERVING_FLAGS and not plan.serves:
            continue
        if isinstance(value, bool):
            words.append(name if value else f"--no-{name[2:]}")
        elif isinstance(value, list):
            words += [name, *map(str, value)]
        else:
            words += [name, _compact(value) if isinstance(value, dict) else str(value)]
    return words


def engine_argv(plan: Plan) -> tuple[str, ...]:
    """`vllm serve MODEL ...`, in a fixed order: sizes, memory, speculation, placement, the owner's own flags.

    Raises ValueError where the plan has no layout.
    """
    service, layout = plan.service, plan.layout
    if layout is None:
        raise ValueError(f"{service.name} on {plan.node.name}: no layout: {plan.layout_error}")
    argv = ["vllm", "serve", service.model, "--served-model-name", service.served_name]
    argv += ["--host", service.host, "--port", str(service.port)]
    argv += ["--tensor-parallel-size", str(layout.tp)]
    if layout.pp > 1:
        argv += ["--pipeline-parallel-size", str(layout.pp)]
    if layout.dp > 1:
        argv += ["--data-parallel-size", str(layout.dp)]
    if plan.span is not None:
        argv += ["--nnodes", str(len(plan.span.nodes)), "--node-rank", str(plan.span.rank)]
        argv += ["--master-addr", plan.span.head, "--master-port", str(plan.span.port)]
        argv += [] if plan.serves else ["--headless"]
    argv += ["--max-model-len", str(service.max_model_len), "--kv-cache-dtype", service.kv_cache_dtype]
    argv += ["--gpu-memory-utilization", f"{service.gpu_memory_utilization:g}"]
    if plan.speculative is not None:
        method = {"method": plan.speculative.method, "num_speculative_tokens": plan.speculative.k}
        argv += ["--speculative-config", _compact(method)]
    if plan.disable_custom_all_reduce:
        argv.append("--disable-custom-all-reduce")
    if plan.hf_overrides:
        argv += ["--hf-overrides", _compact(plan.hf_overrides)]
    if plan.numa_bind and all(rank.numa is not None for rank in plan.ranks):
        argv += ["--numa-bind", "--numa-bind-nodes", *(str(rank.numa) for rank in plan.ranks)]
    if "--shutdown-timeout" not in service.flags:
        # The engine's default of 0 aborts every running request at SIGTERM.
        argv += ["--shutdown-timeout", str(service.policy.stop_grace_s)]
    return tuple(argv + _extra_flags(plan))


def engine_env(plan: Plan) -> dict[str, str]:
    """Environment of the engine without secrets. The owner's own `env` wins over what is derived."""
    layout = plan.layout
    if layout is None:
        raise ValueError(f"{plan.service.name} on {plan.node.name}: no layout: {plan.layout_error}")
    visible = sorted(layout.device_order)
    env = {
        # Inside the container the given GPUs are numbered anew by bus id; rank order is this list's order.
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(str(visible.index(gpu)) for gpu in layout.device_order),
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    if layout.pp > 1 and layout.declared_partition is not None:
        env["VLLM_PP_LAYER_PARTITION"] = ",".join(map(str, layout.declared_partition))
    if plan.span is not None:
        env["VLLM_HOST_IP"] = plan.span.address
        if plan.span.interface is not None:  # else both would choose one by themselves, docker0 for example
            env |= dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), plan.span.interface)
    if plan.v2_runner is not None:
        env["VLLM_USE_V2_MODEL_RUNNER"] = "1" if plan.v2_runner else "0"
    return {**env, **plan.service.env}


def _gpu_words(plan: Plan) -> list[str]:
    """The GPUs by index: for podman through CDI, for docker by the NVIDIA runtime's own option.

    Docker parses --gpus as CSV, so a list of devices needs double quotes of its own.
    """
    gpus = sorted(plan.layout.device_order) if plan.layout else []
    if plan.node.runtime == "docker":
        return ["--gpus", f'"device={",".join(map(str, gpus))}"']
    return [word for gpu in gpus for word in ("--device", f"nvidia.com/gpu={gpu}")]


def image_argv(
    node: NodeDeclaration, image: str, program: str, *words: str, mounts: Sequence[Mount] = (), site: bool = False
) -> tuple[str, ...]:
    """A container of an image that runs a Python program of ours on its own interpreter, and ends.

    It sees these mounts of the node, no GPU and no network; nothing is laid over. `site`: with installed packages.
    """
    argv = [RUNTIMES[node.runtime], *(["--events-backend", "none"] if node.runtime == "podman" else [])]
    argv += ["run", "--rm", "--interactive", "--pull", "never", "--network", "none"]
    for mount in mounts:
        argv += ["--volume", f"{mount.source}:{mount.target}:ro"]
    argv += [*node.runtime_flags, "--entrypoint", "python3", image, "-I", "-B", *([] if site else ["-S"])]
    return (*argv, "-c", program, *words)


def container_argv(plan: Plan) -> tuple[str, ...]:
    """The `podman run` or `docker run` that the unit starts, in the foreground. Values of env never appear: only names.

    The image is never pulled at start: a node that lost its image must fail at once, not after a 20 GiB download.
    """
    service, runtime = plan.service, plan.node.runtime
    argv = [RUNTIMES[runtime]]
    # Its events would stand between the engine's own lines, in the journal and where a failed start is told.
    argv += ["--events-backend", "none"] if runtime == "podman" else []
    argv += ["run", "--rm", "--name", container_name(service.name), "--pull", "never"]
    if runtime == "podman":
        # The unit's own cgroup holds the container, so that systemd accounts for it and ends it.
        argv += ["--replace", "--sdnotify", "ignore", "--cgroups", "split", "--ulimit", "host"]
        # The engine writes to the unit's own journal stream: each line is logged once, and survives the container.
        argv += ["--log-driver", "passthrough"]
    else:
        # The daemon starts the container, so the unit's limits do not reach it.
        argv += ["--ulimit", "nofile=1048576:1048576", "--ulimit", "memlock=-1:-1", "--log-driver", "none"]
    argv += ["--network", "host", "--ipc", "private", "--shm-size", f"{service.shm_gib}g"]
    argv += ["--stop-timeout", str(service.policy.stop_grace_s)]
    argv += ["--cap-add", "SYS_NICE"] if plan.numa_bind else []
    argv += _gpu_words(plan)
    for name in sorted({*engine_env(plan), *service.secrets}):
        argv += ["--env", name]
    argv += ["--volume", f"{service.model}:{service.model}:ro"]
    for mount in service.mounts:
        argv += ["--volume", f"{mount.source}:{mount.target}" + (":ro" if mount.read_only else "")]
    for path, name in patched_files(plan).items():
        held = f"{STATE}/{service.name}/current/{name}"
        argv += ["--volume", f"{held}:{service.image.packages}/{path}:ro"]
    argv += [*plan.node.runtime_flags, "--entrypoint", "vllm", service.image.reference]
    return (*argv, *engine_argv(plan)[1:])
