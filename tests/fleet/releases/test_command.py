"""What is run: argv and env of the engine, and the container around them."""

from typing import Any

import pytest

from fleet.plan import Plan
from fleet.releases.command import container_argv, engine_argv, engine_env
from tests.fleet.builders import DIGEST, LLAMA, MODEL, fleet_with, node


def plan(*args: Any, **changes: Any) -> Plan:
    (one,) = fleet_with(*args, **changes).plans
    return one


def after(argv: tuple[str, ...], flag: str) -> str:
    return argv[argv.index(flag) + 1]


def test_the_whole_argv_of_the_default_profile() -> None:
    text = " ".join(engine_argv(plan(kv_cache_dtype="fp8_ds_mla", gpu_memory_utilization=0.95)))
    assert text == (
        f"vllm serve {MODEL} --served-model-name glm --host 0.0.0.0 --port 8000 --tensor-parallel-size 4 "
        "--pipeline-parallel-size 2 --max-model-len 524288 --kv-cache-dtype fp8_ds_mla --gpu-memory-utilization 0.95 "
        '--speculative-config {"method":"mtp","num_speculative_tokens":3} '
        "--numa-bind --numa-bind-nodes 0 0 0 0 1 1 1 1 --shutdown-timeout 60"
    )


def test_flags_appear_only_where_they_mean_something() -> None:
    argv = engine_argv(plan(layout={"tp": 8}, speculative="none", numa_bind=False))
    for flag in ("--pipeline-parallel-size", "--data-parallel-size", "--speculative-config", "--numa-bind"):
        assert flag not in argv
    for flag in ("--disable-custom-all-reduce", "--hf-overrides"):
        assert flag not in argv


def test_settings_of_todays_script_become_their_flags() -> None:
    overrides = {"index_topk_freq": 1}
    argv = engine_argv(plan(layout={"tp": 2, "pp": 2, "dp": 2}, hf_overrides=overrides, disable_custom_all_reduce=True))
    assert after(argv, "--data-parallel-size") == "2"
    assert after(argv, "--hf-overrides") == '{"index_topk_freq":1}'
    assert "--disable-custom-all-reduce" in argv


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, ["--x"]),
        (False, ["--no-x"]),
        (3, ["--x", "3"]),
        ("a b", ["--x", "a b"]),
        (["a", 1], ["--x", "a", "1"]),
        ({"b": 1, "a": "ä"}, ["--x", '{"a":"ä","b":1}']),
    ],
)
def test_the_owners_flags_come_last(value: object, words: list[str]) -> None:
    argv = engine_argv(plan(flags={"--x": value}))
    assert [*argv[-len(words) :]] == words


def test_a_declared_partition_and_a_pinned_runner_are_in_the_environment() -> None:
    env = engine_env(plan(speculative="mtp"))
    assert (env["VLLM_PP_LAYER_PARTITION"], env["VLLM_USE_V2_MODEL_RUNNER"]) == ("42,36", "1")
    assert engine_env(plan(v2_runner=False))["VLLM_USE_V2_MODEL_RUNNER"] == "0"
    quiet = engine_env(plan(layout={"tp": 8, "partition": [78]}, speculative="none"))
    assert "VLLM_PP_LAYER_PARTITION" not in quiet and "VLLM_USE_V2_MODEL_RUNNER" not in quiet
    assert "VLLM_PP_LAYER_PARTITION" not in engine_env(plan(layout={"tp": 4, "pp": 2}, config=LLAMA))


def test_ranks_find_their_gpus_although_the_container_numbers_them_anew() -> None:
    placed = plan(layout={"tp": 2, "pp": 2, "device_order": [6, 4, 1, 3]})
    assert engine_env(placed)["CUDA_VISIBLE_DEVICES"] == "3,2,0,1"
    devices = [word for word in container_argv(placed) if word.startswith("nvidia.com/gpu=")]
    assert devices == [f"nvidia.com/gpu={gpu}" for gpu in (1, 3, 4, 6)]


@pytest.mark.parametrize("runtime", ["podman", "docker"])
def test_the_container_never_pulls_and_shows_no_value_of_the_environment(runtime: str) -> None:
    hidden = plan(node(runtime=runtime), env={"TOKEN_LIMIT": "hunter2"}, secrets={"HF_TOKEN": {"env": "HF"}})
    argv = container_argv(hidden)
    assert argv[0] == f"/usr/bin/{runtime}"
    assert after(argv, "--pull") == "never"
    assert {"HF_TOKEN", "TOKEN_LIMIT", "CUDA_VISIBLE_DEVICES"} <= set(argv)
    assert not any("hunter2" in word or word.startswith(("HF_TOKEN=", "TOKEN_LIMIT=")) for word in argv)


def test_the_engine_runs_from_the_image_of_that_digest_with_the_engines_argv() -> None:
    one = plan(mounts=[{"source": "/a", "target": "/b"}, {"source": "/c", "target": "/d", "read_only": False}])
    argv = container_argv(one)
    assert after(argv, "--entrypoint") == "vllm"
    at = argv.index(f"site/vllm@{DIGEST}")
    assert argv[at + 1 :] == engine_argv(one)[1:]
    volumes = [argv[i + 1] for i, word in enumerate(argv) if word == "--volume"]
    assert volumes == [f"{MODEL}:{MODEL}:ro", "/a:/b:ro", "/c:/d"]


def test_a_plan_without_a_layout_has_no_command() -> None:
    for made in (engine_argv, engine_env):
        with pytest.raises(ValueError, match="no layout can be"):
            made(plan(layout="auto", gpus=[]))


def test_docker_gets_its_gpus_as_one_csv_value_and_podman_by_their_cdi_names() -> None:
    service = {"layout": {"tp": 2}, "gpus": [4, 5], "speculative": "none"}
    assert after(container_argv(plan(node(runtime="docker"), **service)), "--gpus") == '"device=4,5"'
    podman = container_argv(plan(**service))
    assert [podman[i + 1] for i, word in enumerate(podman) if word == "--device"] == [
        "nvidia.com/gpu=4",
        "nvidia.com/gpu=5",
    ]
