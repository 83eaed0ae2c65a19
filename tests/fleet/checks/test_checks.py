"""What an audit says of each thing that is not as it should be, and that it says nothing where all is."""

from typing import Any

import pytest

from fleet.audit import Audit
from fleet.drift import Drift, check, checks
from fleet.nodes.node import ModelFolder, Pending, Port, Unit
from fleet.nodes.running import EngineProcess, Report, Running, RunningImage, masked
from fleet.verdict import Verdict
from tests.fleet.cases import CONFIG, OVERLAY, case, found, reports, unit, whole

OTHER = "f" * 64
ARGV = case()[0].document["argv"]
COMMAND = case()[0].document["command"]
SWAPPED = (*ARGV[:-4], *ARGV[-2:], *ARGV[-4:-2])


def stranger(**changes: Any) -> EngineProcess:
    return EngineProcess.model_validate({"pid": 99, "unit": None, "argv": ("vllm", "serve", "/m")} | changes)


def boot(**changes: Any) -> Unit:
    return unit(name="vllm-fleet-boot.service", active="inactive", **changes)


def test_a_node_that_serves_as_declared_has_no_drift() -> None:
    assert found() == ()


@pytest.mark.parametrize(
    ("name", "changes", "text"),
    [
        ("release", {"lies": {"proven": None}}, "never proved itself"),
        ("release", {"lies": {"current": "1" * 16, "proven": "1" * 16}}, "found 1111111111111111"),
        ("release", {"lies": {"current": None, "proven": None, "unit": None}}, "found no release"),
        ("secrets", {"lies": {"secrets": {"VLLM_API_KEY": OTHER}}}, "secret VLLM_API_KEY as declared, found another"),
        ("secrets", {"lies": {"secrets": {}}}, "found none"),
        ("secrets", {"lies": {"secrets": {"VLLM_API_KEY": "d" * 64, "MINE": OTHER}}}, "not declared"),
        ("marks", {"lies": {"pending": Pending(release="1" * 16, since=1, deadline=2, run="r7")}}, "of run r7"),
        ("marks", {"lies": {"previous": "2" * 16}}, "nothing to go back to"),
        ("marks", {"lies": {"error": "proven: want a release id, found 'x'"}}, "found proven: want a release id"),
        ("unit", {"lies": {"unit": unit(active="failed", sub="failed")}}, "found failed (failed)"),
        ("unit", {"lies": {"unit": unit(load="masked", enabled="masked")}}, "loaded, found masked"),
        ("unit", {"lies": {"unit": unit(enabled="disabled")}}, "enabled, found disabled"),
        ("unit", {"lies": {"unit": unit(drop_ins=("/etc/x.d/mine.conf",))}}, "found /etc/x.d/mine.conf"),
        ("unit", {"lies": {"unit": unit(fragment="/run/systemd/system/vllm-glm.service")}}, "found /run/systemd"),
        ("unit", {"lies": {"unit": unit(stale=True)}}, "changed since"),
        ("restarts", {"lies": {"unit": unit(restarts=3)}}, "3 by systemd"),
        ("restarts", {"lies": {"unit": unit(invocation="b" * 32)}}, "another one, active since Mon"),
        ("model-folder", {"lies": {"proof": '{"model_config_sha256": "' + OTHER + '"}'}}, f"found {CONFIG[:16]}"),
        ("port", {"told": {"ports": (Port(port=8000, process="nc", pid=7, unit="nc.service"),)}}, "nc (nc.service)"),
        ("proof", {"lies": {"proof": None}}, "none that can be read"),
        ("proof", {"lies": {"proof": '{"release": "x"}'}}, "of another release"),
        ("command", {"runs": {"command": COMMAND[:-1]}}, "without"),
        ("command", {"runs": {"command": None}}, "no such process"),
        ("argv", {"runs": {"argv": (*ARGV, "--enforce-eager")}}, "with --enforce-eager"),
        ("argv", {"runs": {"argv": SWAPPED}}, "the argv of the release"),
        ("env", {"runs": {"env": {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}}}, "found FASTEST_FIRST"),
        ("env", {"runs": {"env_names": ("VLLM_API_KEY",)}}, "found no such variable"),
        ("secret-env", {"runs": {"secrets": {"VLLM_API_KEY": OTHER}}}, "found another value"),
        ("running-image", {"runs": {"image": RunningImage(digest="sha256:" + OTHER)}}, f"found sha256:{OTHER}"),
        ("running-image", {"runs": {"image": None}}, "does not tell"),
        ("mounts", {"runs": {"mounts": (OVERLAY.model_copy(update={"same": False}),)}}, "what lay there when"),
        ("mounts", {"runs": {"mounts": (OVERLAY.model_copy(update={"sha256": OTHER}),)}}, f"found sha256 {OTHER[:16]}"),
        ("reported-model", {"runs": {"reports": reports(v1_models='{"data": [{"id": "x"}]}')}}, "found x"),
        (
            "reported-model",
            {"runs": {"reports": reports(v1_models='{"data": [{"id": "glm", "max_model_len": 7}]}')}},
            "want max_model_len 524288, found 7",
        ),
        ("reported-version", {"runs": {"reports": reports(version='{"version": "0.29.0"}')}}, "found 0.29.0"),
        (
            "kv-pool",
            {"runs": {"reports": reports(metrics='vllm:cache_config_info{kv_cache_size_tokens="9"} 1.0')}},
            "want kv_cache_size_tokens 1000000, as measured at the proof, found 9",
        ),
        ("strangers", {"others": (stranger(),)}, "pid 99 in no unit: vllm serve /m"),
        ("strangers", {"others": (stranger(unit="vllm-glm.service"),)}, "in vllm-glm.service"),
        ("undo-units", {"told": {"support_units": (boot(enabled="disabled"),)}}, "enabled, found disabled"),
        ("undo-units", {"told": {"support_units": (boot(load="masked"),)}}, "loaded, found masked"),
        ("undo-units", {"told": {"support_units": (boot(drop_ins=("/x.conf",)),)}}, "found /x.conf"),
    ],
)
def test_drift_is_named_with_what_was_wanted_and_found(name: str, changes: dict[str, Any], text: str) -> None:
    drifts = [drift for drift in found(**changes) if drift.check == name]
    assert drifts and text in "; ".join(map(str, drifts)), found(**changes)
    assert all(drift.kind == "drift" and drift.remedy and "{" not in drift.remedy for drift in drifts)


def test_a_model_folder_that_the_node_did_not_come_to_is_unknown_and_not_changed() -> None:
    cut = {"models": (ModelFolder(path=case()[0].plan.service.model, error="did not end in time"),)}
    proven = {"proof": '{"model_config_sha256": "' + OTHER + '"}'}
    (drift,) = [d for d in found(told=cut, lies=proven) if d.check == "model-folder"]
    assert drift.kind == "unknown" and "put the checkpoint back" not in str(drift), drift


def test_a_part_that_the_node_did_not_come_to_is_helped_by_what_hangs_and_not_by_ending_processes() -> None:
    (drift,) = [d for d in found(told={"running": Running(error="did not end in time")}) if d.check == "strangers"]
    assert str(drift).endswith("on a1; see what hangs on a1 (nvidia-smi, a mount), then ask again")


@pytest.mark.parametrize(
    ("name", "changes", "text"),
    [
        ("restarts", {"lies": {"started": None}}, "rolled out by an older version"),
        ("strangers", {"told": {"running": Running(error="did not end in time")}}, "did not end in time"),
        ("strangers", {"told": {"running": None}}, "not asked for"),
        ("process", {"told": {"running": Running()}}, "found none"),
        ("undeclared", {"told": {"services_error": "files: cut off"}}, "files: cut off"),
        ("reported-model", {"runs": {"reports": ()}}, "found no answer"),
        ("reported-model", {"runs": {"reports": reports(v1_models="<html>")}}, "found <html>"),
        ("reported-model", {"runs": {"reports": reports(v1_models=Report(path="/v1/models", status=401))}}, "HTTP 401"),
        ("kv-pool", {"runs": {"reports": reports(metrics="")}}, "no such metric"),
    ],
)
def test_what_cannot_be_told_is_unknown_and_not_fine(name: str, changes: dict[str, Any], text: str) -> None:
    drifts = [drift for drift in found(**changes) if drift.check == name]
    assert [drift.kind for drift in drifts] == ["unknown"] and text in str(drifts[0]), found(**changes)


def test_an_argv_in_another_order_is_shown_as_a_difference() -> None:
    (drift,) = [drift for drift in found(runs={"argv": SWAPPED}) if drift.check == "argv"]
    assert any(line.startswith("+--") for line in drift.diff) and any(line.startswith("-") for line in drift.diff)


def test_files_that_were_changed_are_shown_from_release_to_node() -> None:
    one, seen = case()
    lies = one.installed
    assert lies is not None and seen.facts is not None
    edited = tuple(
        file.model_copy(update={"text": f'{file.text}MINE="hunter2"\n', "sha256": "0"})
        if file.path.endswith("/env")
        else file
        for file in lies.files
    )
    (drift,) = [drift for drift in found(lies={"files": edited}) if drift.check == "files"]
    assert "+MINE=(not declared)" in drift.diff and "hunter2" not in drift.model_dump_json()


def test_a_stopped_service_has_no_process_to_compare() -> None:
    drifts = found(lies={"unit": unit(active="inactive", sub="dead")}, told={"running": Running(), "ports": ()})
    assert [drift.check for drift in drifts] == ["unit"]


def test_a_variable_that_nobody_declared_is_told_without_its_value() -> None:
    one, _ = case()
    names = (*one.document["env"], "VLLM_API_KEY", "HF_TOKEN", "NVIDIA_X", "CUDA_VERSION")
    (drift,) = [drift for drift in found(runs={"env_names": names}) if drift.check == "env"]
    assert (drift.want, drift.got) == ("no HF_TOKEN", "HF_TOKEN with a value that is not shown")


def test_words_that_may_be_secret_are_masked() -> None:
    words = ("vllm", "--api-key", "s1", "--hf-token=s2", "-e", "A=s3", "--env", "B", "--tokenizer", "x")
    assert masked(words) == (
        "vllm",
        "--api-key",
        "***",
        "--hf-token=***",
        "-e",
        "A=***",
        "--env",
        "B",
        "--tokenizer",
        "x",
    )


def test_a_secret_that_somebody_put_into_a_file_is_masked_in_the_whole_audit() -> None:
    drift = Drift(check="files", node="a1", want="x", got="has hunter2-long", diff=("+Environment=K=hunter2-long",))
    gate = Verdict(gate="g", node="a1", status="fail", got="hunter2-long", because="hunter2-long")
    masked_audit = whole(case(), drifts=(drift,), verdicts=(gate,)).without({"hunter2-long", "no"})
    assert "hunter2" not in masked_audit.model_dump_json(include={"drifts", "verdicts"})


def exit_code(*kinds: str) -> int:
    drifts = tuple(Drift(check="c", node="a1", want="w", got="g", kind=kind) for kind in kinds)  # type: ignore[arg-type]
    return Audit(fleet="f", when="", views=(), unread={}, cases=(), verdicts=(), drifts=drifts).exit_code


def test_exit_codes_are_an_interface() -> None:
    assert (exit_code(), exit_code("unknown"), exit_code("drift"), exit_code("unknown", "drift")) == (0, 1, 2, 2)


def test_every_check_has_a_name_of_its_own_a_summary_and_a_remedy() -> None:
    names = [one.name for one in checks()]
    assert len(set(names)) == len(names) >= 20
    assert all(one.summary and one.remedy for one in checks())
    with pytest.raises(ValueError, match="found it twice"):
        check("argv", remedy="x")(checks()[0].ask)
    with pytest.raises(TypeError, match="want a docstring"):
        check("new", remedy="x")(lambda case: ())


def test_a_check_with_a_mistake_in_it_is_told_and_does_not_end_the_audit() -> None:
    one, seen = case(lies={"proof": '{"measured": {"block_size": "1"}, "release": 1}'})
    broken = one.model_copy(update={"change": None})
    from fleet.drift import audit

    told = [drift for drift in audit([broken], [seen]) if drift.check == "release"]
    assert [drift.kind for drift in told] == ["unknown"] and "could not decide: AttributeError" in told[0].got
