"""The lines in which vLLM tells its memory, as `node measured` quotes them from the journal."""

from hypothesis import given
from hypothesis import strategies as st

from facts.parse.start_log import parse_start
from fleet.ledger.started import GpuMemory, StartedRank

# The forms are those of vLLM 0.30's source; the figures are one operator's.
LINES = """\
| (Worker_PP0_TP0 pid=210) INFO 11-30 08:16:06 [gpu_model_runner.py:5417] Model loading took 47.85 GiB memory and 530.104217 seconds
| (Worker_PP0_TP0 pid=210) INFO 11-30 08:16:30 [gpu_worker.py:641] Available KV cache memory: 21.95 GiB
| (EngineCore pid=180) INFO 11-30 08:16:31 [kv_cache_utils.py:2395] GPU KV cache size: 597,760 tokens, Maximum concurrency for 524,288 tokens per request: 1.14x
| (Worker_PP0_TP0 pid=210) INFO 11-30 08:16:50 [gpu_model_runner.py:6929] Graph capturing finished in 18 secs, took 0.76 GiB
gpu=0, 72430, 81920
gpu=4, 80118, 81920
"""  # noqa: E501


def test_weights_room_graphs_pool_and_gpus_are_read() -> None:
    started = parse_start(LINES.splitlines())
    rank = StartedRank(process="Worker_PP0_TP0", weights_gib=47.85, available_kv_gib=21.95, cuda_graph_gib=0.76)
    assert started.ranks == (rank,) and rank.stage == 0
    assert started.pool_tokens == 597_760
    assert started.gpus == (
        GpuMemory(index=0, used_mib=72430, total_mib=81920),
        GpuMemory(index=4, used_mib=80118, total_mib=81920),
    )


def test_of_several_engines_the_smallest_pool_counts() -> None:
    lines = [
        f"| (EngineCore_DP{n} pid=1) GPU KV cache size: {size} tokens" for n, size in enumerate(("9,000", "8,192"))
    ]
    assert parse_start(lines).pool_tokens == 8192


def test_the_cpu_build_prints_its_pool_in_the_same_words() -> None:
    assert parse_start(["| (EngineCore pid=7) CPU KV cache size: 1,048,576 tokens, Maximum"]).pool_tokens == 1048576


def test_a_gpu_that_gives_no_number_is_left_out() -> None:
    assert parse_start(["gpu=3, [N/A], 81920", "gpu=No devices were found"]).gpus == ()


@given(st.lists(st.text(max_size=80), max_size=8))
def test_whatever_a_journal_holds_nothing_is_invented(lines: list[str]) -> None:
    quiet = [line for line in lines if not any(word in line for word in ("GiB", "KV cache size", "gpu="))]
    started = parse_start(quiet)
    assert (started.ranks, started.pool_tokens, started.gpus) == ((), None, ())
