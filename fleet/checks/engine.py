"""What an engine reports of itself, against the release, the proof and the prediction."""

import json
import re
from collections.abc import Iterator
from typing import Any

from fleet.drift import Case, Seen, check
from fleet.known import Undecidable
from fleet.nodes.running import Report
from fleet.span import serves

CACHE = "vllm:cache_config_info"
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def _answer(case: Case, path: str) -> Report | None:
    """The engine's answer to a path; None where it does not run. Undecidable where it did not answer with 200."""
    engine = case.engine
    if engine is None or not serves(case.document):
        return None
    report = engine.report(path)
    if report.status != 200:
        got = f"HTTP {report.status}" if report.status else "no answer"
        raise Undecidable(f"the engine's {path}", got, "see whether it still serves: fleet wait {service} {node}")
    return report


def _object(text: str, path: str) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise Undecidable(f"a JSON object from {path}", text[:120] or "nothing")
    return told


@check("reported-model", remedy="deploy to {node} anew")
def model(case: Case) -> Iterator[Seen]:
    """The engine serves the model of the release, under its name and with its context."""
    report = _answer(case, "/v1/models")
    if report is None:
        return
    data = _object(report.body, report.path).get("data")
    models = [one for one in data if isinstance(one, dict)] if isinstance(data, list) else []
    words = list(map(str, case.document.get("argv") or ()))
    name, length = (_flag(words, flag) for flag in ("--served-model-name", "--max-model-len"))
    one = next((one for one in models if one.get("id") == name), None)
    if one is None:
        yield Seen(want=f"a model named {name}", got=", ".join(str(one.get("id")) for one in models) or "none")
        return
    if one.get("root") not in (None, case.document.get("model")):
        yield Seen(want=f"the model {case.document.get('model')}", got=str(one["root"]))
    if length is not None and str(one.get("max_model_len")) != length:
        yield Seen(want=f"max_model_len {length}", got=str(one.get("max_model_len")))


def _flag(words: list[str], flag: str) -> str | None:
    return words[words.index(flag) + 1] if flag in words[:-1] else None


@check("reported-version", remedy="declare the engine version that the image has")
def version(case: Case) -> Iterator[Seen]:
    """The engine reports the version that is declared for its image."""
    report = _answer(case, "/version")
    if report is None:
        return
    found, want = str(_object(report.body, report.path).get("version")), str(case.document.get("engine"))
    if re.split(r"[+]", found)[0] != re.split(r"[+]", want)[0]:
        yield Seen(want=f"engine {want}", got=found)


def cache_config(case: Case) -> dict[str, str] | None:
    """Labels of the cache configuration that the engine exports now; of several engines the one with the least room."""
    report = _answer(case, "/metrics")
    if report is None:
        return None
    found = [dict(_LABEL.findall(line)) for line in report.body.splitlines() if line.startswith(CACHE)]
    sized = [labels for labels in found if labels.get("kv_cache_size_tokens", "").isdecimal()]
    if not sized:
        raise Undecidable(f"{CACHE} with kv_cache_size_tokens", report.body[:120] or "no such metric")
    return min(sized, key=lambda labels: int(labels["kv_cache_size_tokens"]))


@check("kv-pool", remedy="look at what else holds memory on {node}; deploy it anew to measure again")
def pool(case: Case) -> Iterator[Seen]:
    """The engine's KV pool is the one that was measured when it proved itself."""
    now, proven = cache_config(case), case.proof.get("measured")
    if now is None or not isinstance(proven, dict):
        return
    for name in ("kv_cache_size_tokens", "num_gpu_blocks", "block_size", "cache_dtype"):
        if name in proven and name in now and str(proven[name]) != now[name]:
            yield Seen(want=f"{name} {proven[name]}, as measured at the proof", got=now[name])
