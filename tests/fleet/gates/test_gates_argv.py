"""The command line and the environment of a plan are those of the declared engine version."""

from fleet.gate import FleetView
from tests.fleet.builders import IMAGE, ask, fails, fleet_with, passes, warns


def engine(version: str, **changes: object) -> FleetView:
    return fleet_with(image=IMAGE | {"engine": version}, **changes)


def test_what_is_rendered_is_taken_by_every_known_version() -> None:
    for version in ("0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0", "0.30.0+cu129"):
        passes("engine-argv", engine(version, speculative="none"))
        passes("engine-env", engine(version, speculative="none"))


def test_a_flag_that_the_version_does_not_have_fails_with_the_nearest_right_one() -> None:
    fails("engine-argv", engine("0.30.0", flags={"--max-num-seq": 8, "--enable-resoning": True}), "--enable-resoning")
    fails("engine-argv", engine("0.30.0", flags={"--max-numb-seqs": 8}), "no such flag", "write --max-num-seqs")


def test_a_value_that_the_parser_refuses_fails() -> None:
    fails("engine-argv", engine("0.30.0", flags={"--max-num-seqs": "many"}), "--max-num-seqs: want an integer")
    fails("engine-argv", engine("0.30.0", kv_cache_dtype="fp9"), "--kv-cache-dtype: want one of", "write fp8")
    fails("engine-argv", engine("0.30.0", flags={"--compilation-config": {"mod": 3}}), "no such key: mod", "write mode")


def test_a_remedy_that_is_a_sentence_is_told_as_it_is() -> None:
    for flag, remedy in {
        "--spec": "write the whole name",
        "--swap-space": "leave it out: nothing is swapped",
        "--temperature": "write --override-generation-config with",
    }.items():
        told = ask("engine-argv", engine("0.30.0", flags={flag: 1}))
        remedies = [verdict.remedy for verdict in told if verdict.stops]
        assert any(one.startswith(remedy) for one in remedies), remedies


def test_what_would_parse_and_then_not_start_fails_as_well() -> None:
    fails("engine-argv", engine("0.30.0", flags={"--max-num-seqs": 0}), "--max-num-seqs")
    fails("engine-argv", engine("0.30.0", flags={"--enable-auto-tool-choice": True}), "needs --tool-call-parser")


def test_what_is_hardly_meant_warns() -> None:
    warns("engine-argv", engine("0.30.0", flags={"--max-num-seq": 8}), "short for --max-num-seqs")


def test_a_version_without_a_catalog_fails_with_the_command_that_makes_it() -> None:
    for version in ("0.30.1", "0.99.0"):
        unknown = engine(version, speculative="none")
        fails("engine-argv", unknown, f"found {version}", f"fleet engine dump {version}")
        fails("engine-env", unknown, f"found {version}", f"fleet engine dump {version}")


def test_without_a_layout_there_is_no_command_line_to_judge() -> None:
    unclear = fleet_with(layout="auto", config=None, speculative="none")
    fails("engine-argv", unclear, "want a layout")
    fails("engine-env", unclear, "want a layout")


def test_no_value_of_an_owners_flag_is_told_since_any_may_be_a_secret() -> None:
    told = ask("engine-argv", engine("0.30.0", flags={"--max-num-seqs": "hunter2" * 30, "--hf-token": "--key-of-mine"}))
    assert any(verdict.stops for verdict in told)
    assert not any("hunter2" in verdict.model_dump_json() or "of-mine" in verdict.model_dump_json() for verdict in told)


def test_a_variable_that_nothing_reads_warns() -> None:
    warns("engine-env", engine("0.30.0", env={"VLLM_LOGING_LEVEL": "DEBUG"}), "VLLM_LOGING_LEVEL", "VLLM_LOGGING_LEVEL")
    passes("engine-env", engine("0.30.0", env={"NCCL_DEBUG": "INFO", "VLLM_LOGGING_LEVEL": "DEBUG"}))
