"""A `vllm serve` command line is judged without vLLM: what is taken, what is refused, and what to write instead."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from fleet.argv.check import ArgvReport, check_argv
from fleet.argv.hints import REPLACED
from fleet.argv.values import Refused
from fleet.engines.catalogs import catalog_of, versions
from tests.facts.captures import SHARED

CASES = SHARED / "engine" / "argv" / "cases-0.30.0.jsonl"


def check(*words: str, version: str = "0.30.0", config: Mapping[str, Any] | None = None) -> ArgvReport:
    catalog = catalog_of(version)
    assert catalog is not None

    def read(path: str) -> Mapping[str, Any]:
        if config is None:
            raise Refused(f"no file {path}", "--config")
        return config

    return check_argv(catalog, ["vllm", "serve", *words], read)


def cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CASES.read_text().splitlines()] if CASES.exists() else []


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_a_posted_command_line_is_judged_as_the_real_parser_judged_it(case: dict[str, Any]) -> None:
    catalog = catalog_of("0.30.0")
    assert catalog is not None
    report = check_argv(catalog, case["argv"])
    assert report.accepts is case["accepts"], case["error"] or [str(finding) for finding in report.findings]


TAKEN = [
    ["m"],
    [],
    ["m", "-tp=8"],
    ["m", "-dp", "16", "-dpl", "8", "-ep", "-dpr", "8"],
    ["m", "-O3"],
    ["m", "-O", "2"],
    ["m", "--max_model_len", "1M"],
    ["m", "--max-model-len=auto"],
    ["m", "--max-model-len", "25.6k"],
    ["m", "--no-enable-prefix-caching"],
    ["m", "--served-model-name", "a", "b", "--port", "1"],
    ["-tp", "2", "m"],
    ["m", "--hf-token"],
    ["m", "--compilation-config", '{"mode": "none", "cudagraph_mode": "full_decode_only"}'],
    ["m", "-cc.mode=2", "-cc.backend=eager"],
    ["m", "--compilation_config.cudagraph_capture_sizes", "[1, 2]"],
    ["m", "--kv-transfer-config.kv_buffer_size", "80m"],
    ["m", "--lora-modules", "a=/x", '{"name": "b", "path": "/y"}'],
    ["m", "--moe-backend", "Flashinfer-Cutlass"],
    ["m", "--middleware", "a", "--middleware", "b"],
]


@pytest.mark.parametrize("words", TAKEN, ids=" ".join)
def test_a_form_that_the_parser_takes_is_taken(words: list[str]) -> None:
    report = check(*words)
    assert report.accepts and report.starts, [str(finding) for finding in report.findings]


REFUSED = [
    (["m", "--enable-resoning"], "--enable-resoning", "no such flag", "--enable"),
    (["m", "--tp", "8"], "--tp", "no such flag", "-tp"),
    (["m", "-language-model-only"], "-language-model-only", "no such flag", "--language-model-only"),
    (["m", "--task", "embed"], "--task", "no such flag", "--runner pooling"),
    (["m", "-tp8"], "-tp8", "no such flag", "-tp 8"),
    (["m", "--worker-use-ray"], "--worker-use-ray", "no such flag", "--distributed-executor-backend ray"),
    (["m", "--tp-size", "4"], "--tp-size", "no such flag", "--tensor-parallel-size"),
    (["m", "--enforce-eager", "true"], None, "words that belong to no flag", "a switch takes no value"),
    (["m", "\u2013port", "8000"], None, "words that belong to no flag", "write --port"),
    (["m", "\u2014", "--port", "8000"], None, "words that belong to no flag", "no hyphen"),
    (["m", ""], None, "words that belong to no flag", None),
    (["m", "-p", "2"], "-p", "ambiguous, it could be -pcp, -pp", "write the whole name"),
    (["m", "--tensor-parallel-size", "two"], "--tensor-parallel-size", "want an integer", None),
    (["m", "--tensor-parallel-size"], "--tensor-parallel-size", "expected one argument", None),
    (["m", "--max-model-len", "1.5K"], "--max-model-len", "fraction", "1.5k"),
    (["m", "--kv-cache-dtype", "fp9"], "--kv-cache-dtype", "want one of", "fp8"),
    (
        ["m", "--enable-chunked-prefill=False"],
        "--enable-chunked-prefill",
        "takes no value",
        "--no-enable-chunked-prefill",
    ),
    (["m", "--host 127.0.0.1"], "--host 127.0.0.1", "", "two words in one argument"),
    (["m", "--limit-mm-per-prompt", "image=10"], "--limit-mm-per-prompt", "want JSON", "quoted names"),
    (["m", "--speculative-config", "'{\"k\": 1}'"], "--speculative-config", "want JSON", "leave the single quotes out"),
    (["m", "--compilation-config", "3"], "--compilation-config", "object", None),
    (["m", "--compilation-config", '{"mod": 3}'], "--compilation-config.mod", "no such key", "mode"),
    (
        ["m", "--compilation-config", '{"pass_config": {"x": 1}}'],
        "--compilation-config.pass_config.x",
        "no such key",
        None,
    ),
    (["m", "--compilation-config", '{"mode": "fast"}'], "--compilation-config.mode", "want one of NONE", None),
    (["m", "--compilation-config", '{"custom_ops": ["x"]}'], "--compilation-config", "custom_ops", None),
    (["m", "--eplb-config.policy", "other"], "--eplb-config.policy", "Input should be", None),
    (["m", "--kv-transfer-config", '{"kv_connector": "X"}'], "--kv-transfer-config", "needs kv_role", None),
    (["m", "--eplb-config", '{"window_size": 0}'], "--eplb-config.window_size", "greater than 0", None),
    (["serve", "m", "-tp", "2"], None, "belong to no flag", "twice"),
    (["vllm", "serve", "m"], None, "belong to no flag", "twice"),
    (["m", " # note", "of", "mine"], None, "belong to no flag", "comment"),
    (["--served-model-name", "a", "--port", "1"], None, "first word", None),
    (["m", "--model"], "--model", "expected one argument", None),
]


@pytest.mark.parametrize(("words", "flag", "message", "suggestion"), REFUSED, ids=lambda part: str(part)[:40])
def test_a_mistake_is_refused_and_what_was_meant_is_said(
    words: list[str], flag: str | None, message: str, suggestion: str | None
) -> None:
    report = check(*words)
    found = [one for one in report.findings if one.level == "refused" and one.flag == flag]
    assert found and not report.accepts and not report.starts, [str(one) for one in report.findings]
    assert any(message in one.message for one in found), [one.message for one in found]
    if suggestion is not None:
        assert any(suggestion in (one.suggestion or "") for one in found), [one.suggestion for one in found]


FAILS = [
    (["m", "--speculative-config", '{"method": "mtp", "num_spec_tokens": 3}'], "--speculative-config.num_spec_tokens"),
    (["m", "--speculative-config.method", "mpt"], "--speculative-config.method"),
    (["m", "--enable-auto-tool-choice"], "--enable-auto-tool-choice"),
    (["m", "--tensor-parallel-size", "0"], "--tensor-parallel-size"),
    (["m", "--gpu-memory-utilization", "1.5"], "--gpu-memory-utilization"),
    (["m", "--headless", "--api-server-count", "2"], "--api-server-count"),
    (["m", "--help=all", "--no-such-flag"], "--help"),
]


@pytest.mark.parametrize(("words", "flag"), FAILS, ids=lambda part: str(part)[:40])
def test_what_parses_and_then_does_not_start_is_told_apart_from_what_does_not_parse(
    words: list[str], flag: str
) -> None:
    report = check(*words)
    assert report.accepts and not report.starts
    assert [one.flag for one in report.findings if one.level == "fails"] == [flag]


WARNED = [
    (["m", "--port", "1", "--port", "2"], "--port", "more than once"),
    (
        ["m", "--compilation-config.mode", "1", "-cc", "{}", "--compilation-config.mode", "2"],
        "--compilation-config.mode",
        "",
    ),
    (["m", "--max-model", "1k"], "--max-model", "short for --max-model-len"),
    (["--model", "m"], "--model", "right after"),
    (["m", "--reasoning-parser=false"], "--reasoning-parser", "plugin"),
    (["m", "--tool-call-parser", "hermes2"], "--tool-call-parser", "plugin"),
    (["m", "--tokenizer-mode", "fancy"], "--tokenizer-mode", "plugin"),
    ([], None, "no model"),
]


@pytest.mark.parametrize(("words", "flag", "message"), WARNED, ids=lambda part: str(part)[:40])
def test_what_starts_and_is_hardly_meant_is_a_warning(words: list[str], flag: str | None, message: str) -> None:
    report = check(*words)
    assert report.starts
    assert any(one.level == "warning" and one.flag == flag and message in one.message for one in report.findings)


def test_every_mistake_is_told_and_not_only_the_first() -> None:
    report = check("m", "--tp", "8", "--port", "x", "--kv-cache-dtype", "fp9")
    assert {one.flag for one in report.findings} >= {"--tp", "--port", "--kv-cache-dtype"}


def test_a_config_file_comes_before_the_flags_and_is_judged_with_them() -> None:
    assert check("m", "--config", "a.yaml", config={"port": 8001, "speculative-config": {"method": "mtp"}}).accepts
    refused = check("m", "--config", "a.yaml", config={"prot": 8001})
    assert [one.flag for one in refused.findings] == ["--prot"]
    both = check("m", "--port", "1", "--config", "a.yaml", config={"port": 8001})
    assert both.accepts and any("more than once" in one.message for one in both.findings)
    assert check("--config", "a.yaml", config={"model": "m"}).accepts
    assert not check("--config", "a.yaml", config={"port": 1}).accepts
    assert not check("m", "--config", "a.json", config={}).accepts
    assert not check("m", "--config", "a.yaml").accepts
    assert not check("m", "--config").accepts


def test_another_command_is_refused() -> None:
    catalog = catalog_of("0.30.0")
    assert catalog is not None
    for argv in ([], ["vllm"], ["vllm", "bench"], ["python3", "-m", "vllm.entrypoints.openai.api_server"]):
        assert not check_argv(catalog, argv).accepts
    assert check_argv(catalog, ["/opt/venv/bin/vllm", "serve", "m"]).accepts


def test_a_flag_that_a_later_version_dropped_or_changed_is_judged_by_that_version() -> None:
    assert check("m", "--log-config-file", "x", version="0.30.0").accepts
    assert check("m", "--disable-eplb", version="0.33.0").accepts
    assert not check("m", "--disable-eplb", version="0.32.0").accepts
    assert check("m", "--no-enable-eplb", version="0.33.0").accepts


def test_a_cache_dtype_is_one_of_a_list_until_0_32_and_may_be_a_plugins_in_0_33() -> None:
    assert not check("m", "--kv-cache-dtype", "fp9", version="0.32.0").accepts
    report = check("m", "--kv-cache-dtype", "fp9", version="0.33.0")
    assert report.starts and "plugin" in report.findings[0].message


@pytest.mark.parametrize("version", versions())
def test_every_version_takes_a_plain_command_line(version: str) -> None:
    report = check("m", "--tensor-parallel-size", "2", "--kv-cache-dtype", "fp8", "-cc.mode=2", version=version)
    assert report.starts, [str(one) for one in report.findings]


@pytest.mark.parametrize("version", versions())
@pytest.mark.parametrize(("gone", "hint"), REPLACED.items())
def test_what_is_written_instead_of_a_dropped_flag_is_taken(version: str, gone: str, hint: str) -> None:
    catalog = catalog_of(version)
    assert catalog is not None
    named = re.findall(r"(?<![\w-])--[a-z0-9-]+", hint)
    assert named or "leave it out" in hint or "place" in hint
    assert [flag for flag in named if flag not in catalog.options] == []
    for flag, keys in re.findall(r"(--[a-z0-9-]+) with (\{.*\})", hint):
        given = keys.replace("{...}", "{}").replace("...", "1")
        messages = [one.message for one in check("m", flag, given, version=version).findings]
        assert not any(message.startswith("no such key") for message in messages), messages


@pytest.mark.parametrize(("port", "starts"), [("0", True), ("65535", True), ("65536", False), ("-1", False)])
def test_a_port_that_no_socket_can_have_does_not_start(port: str, starts: bool) -> None:
    report = check("m", f"--port={port}")
    assert report.accepts and report.starts is starts
