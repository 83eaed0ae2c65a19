"""The current release as a plan: what it holds, what its engine said of its memory, what another would change."""

import json
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from fleet.declaration import LayoutDeclaration, ServiceDeclaration, Speculative
from fleet.engines.engine import engine_of
from fleet.frozen import Frozen
from fleet.layouts.capacity import Capacity, capacity, capacity_of, question_about
from fleet.layouts.layout import Layout
from fleet.layouts.question import MeasuredCut, Question
from fleet.layouts.sizes import Sizes
from fleet.ledger.started import Started, read_started
from fleet.model.shape import GIB
from fleet.nodes.node import Installed
from fleet.plan import Plan, architecture_on


def current_document(installed: Installed | None) -> dict[str, Any] | None:
    """plan.json of the current release; None where there is none that can be read. Not to be changed by its readers."""
    files = installed.files if installed else ()
    return _document(next((file.text for file in files if file.path.endswith("/plan.json")), None))


@lru_cache(maxsize=512)  # several parts of a plan ask for the same text
def _document(text: str | None) -> dict[str, Any] | None:
    try:
        document = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _flags(argv: list[str]) -> dict[str, Any]:
    """Flags with one value, numbers as numbers; a bare flag is true."""
    found: dict[str, Any] = {}
    for word, following in zip(argv, [*argv[1:], "--"], strict=True):
        if word.startswith("--"):
            value = True if following.startswith("--") else following
            found[word] = int(value) if isinstance(value, str) and value.isdecimal() else value
    return found


_JSON = (("--speculative-config", "null"), ("--hf-overrides", "{}"))
"""Flags whose value is JSON, and what stands for none."""


def _service(declared: ServiceDeclaration, document: dict[str, Any]) -> ServiceDeclaration:
    """The service as the running release serves it. Raises ValueError or TypeError where its plan.json is damaged."""
    flags = _flags([str(word) for word in document["argv"]])
    length, share = int(flags["--max-model-len"]), float(flags.get("--gpu-memory-utilization", 0.9))
    if not (0 < length < 2**40 and 0 < share <= 1):
        raise ValueError(f"want a context and a share of the memory, found {length} and {share}")
    draft, overrides = (json.loads(str(flags.get(*one))) for one in _JSON)
    if not isinstance(overrides, dict):
        raise ValueError(f"want a mapping of overrides, found {overrides!r}")
    k = draft.get("num_speculative_tokens", 1) if draft else 1
    settings = {
        "model": str(document["model"]),
        "image": declared.image.model_copy(update={"engine": str(document["engine"])}),
        "objective": "latency",
        "max_model_len": length,
        "kv_cache_dtype": str(flags.get("--kv-cache-dtype", "auto")),
        "gpu_memory_utilization": share,
        "speculative": Speculative(method=draft["method"], k=k) if draft else "none",
        "hf_overrides": overrides,
        "layout": LayoutDeclaration.model_validate(document["layout"]),
        "flags": flags,
    }
    return declared.model_copy(update=settings)


def current_plan(plan: Plan) -> Plan | None:
    """The plan of what runs on this plan's node under this plan's name; None where nothing runs or it is unreadable."""
    document = current_document(plan.installed)
    if document is None:
        return None
    try:
        service = _service(plan.service, document)
        order, cut = document["layout"]["device_order"], service.layout
        if cut == "auto":
            return None
        layout = Layout(tp=cut.tp, pp=cut.pp, dp=cut.dp, partition=cut.partition, device_order=tuple(map(int, order)))
    except (KeyError, ValueError, TypeError, AttributeError, ValidationError):
        return None
    # What passed the gates with a stage on a sharing layer was repaired: by our patch, or by the image.
    patched = bool(document.get("patches"))
    service = service.model_copy(update={"boundary_repaired": not patched})
    architecture, error = architecture_on(service, plan.facts)
    return plan.model_copy(
        update={
            "service": service,
            "layout": layout,
            "architecture": architecture,
            "architecture_error": error,
            "engine": engine_of(service.image.engine),
            "boundary": plan.boundary if patched else None,
        }
    )


def started_of(plan: Plan) -> Started | None:
    """What the running engine said of its memory when it started."""
    return read_started(plan.installed.proof) if plan.installed else None


def measured_cut(plan: Plan) -> MeasuredCut | None:
    """What the running engine logged, where it was served as this plan serves it, layout and KV dtype aside."""
    running, started = current_plan(plan), started_of(plan)
    if running is None or started is None or running.layout is None or running.service.model != plan.service.model:
        return None
    asked, now = question_about(running), question_about(plan)
    if asked is None or now is None or _apart(asked) != _apart(now):
        return None
    cut, sizes = running.layout.partition or (asked.case.model.layers,), _sizes(running.layout)
    memory = asked.memory()
    if isinstance(memory, str) or memory.refusal(sizes) or not isinstance(capacity(asked, sizes, cut), Capacity):
        return None
    budget = started.budget(memory.ledger(sizes), cut)
    return MeasuredCut(sizes=sizes, budget=budget) if budget else None


def _sizes(layout: Layout) -> Sizes:
    return Sizes(tp=layout.tp, pp=layout.pp, dp=layout.dp)


def _apart(asked: Question) -> tuple[Any, ...]:
    """What memory beside weights and KV depends on."""
    serving = asked.serving
    return (
        asked.subject,
        serving.engine,
        serving.draft,
        serving.max_model_len,
        serving.max_num_batched_tokens,
        asked.max_num_seqs,
        asked.utilization,
        asked.gpu_mib,
    )


def capacity_words(plan: Plan) -> tuple[str, ...]:
    """What the change from the running release to this plan means for its capacity; predicted, unless it is said."""
    new = capacity_of(plan, measured_cut(plan))
    if isinstance(new, str):
        return (f"capacity: unknown: {new}",)
    running, started = current_plan(plan), started_of(plan)
    old = capacity_of(running) if running else None
    if not isinstance(old, Capacity):
        why = f" (of the running release: unknown: {old})" if old else ""
        return (f"pool: {new.pool:,} tokens{why}", f"longest request: {new.context:,} tokens", _requests(new))
    logged = started.pool_tokens if started else None
    before = f"{logged:,} (logged)" if logged else f"{old.pool:,}"
    held = old.model_copy(update={"logged": logged}) if logged else old
    length = new.max_model_len
    return (
        f"pool: {before} -> {new.pool:,} tokens",
        f"longest request: {held.context:,} -> {new.context:,} tokens",
        f"resident requests of {length:,} tokens: {held.resident(length)} -> {new.resident(length)}",
    )


def _requests(new: Capacity) -> str:
    return f"resident requests of {new.max_model_len:,} tokens: {new.resident(new.max_model_len)}"


FAR = 0.02
"""Share from which on a prediction is off: a finding wherever it is shown."""


class Figure(Frozen):
    """One figure of the running release: as it was predicted before anything was measured, and as the engine logged it.

    GiB of one rank, or tokens of the pool.
    """

    name: str
    predicted: float
    logged: float

    @property
    def off(self) -> float:
        """Share by which the prediction is too large."""
        return self.predicted / self.logged - 1

    @property
    def far(self) -> bool:
        """Is the prediction further off than it should be?"""
        return abs(self.off) > FAR

    @property
    def finding(self) -> str | None:
        """What is wrong with the prediction; None where it is near enough."""
        return f"{self}: want within {FAR:.0%}" if self.far else None

    def __str__(self) -> str:
        predicted, logged = (
            f"{value:,.0f}" if self.name.endswith("tokens") else f"{value:,.2f}"
            for value in (self.predicted, self.logged)
        )
        return f"{self.name}: predicted {predicted}, logged {logged} ({self.off:+.1%})"

    def document(self) -> dict[str, str | float | bool]:
        """For machines. `off`: a share."""
        return {
            "figure": self.name,
            "predicted": round(self.predicted, 3),
            "logged": self.logged,
            "off": round(self.off, 5),
            "finding": self.far,
        }


def side_by_side(plan: Plan) -> tuple[Figure, ...]:
    """Prediction and measurement of what runs; empty where nothing runs, logged anything, or could be predicted."""
    running, started = current_plan(plan), started_of(plan)
    held = capacity_of(running) if running else None
    if started is None or not isinstance(held, Capacity):
        return ()
    found = []
    for rank in started.ranks:
        if rank.stage < len(held.stages):
            stage = held.stages[rank.stage]
            pairs = (("weights", stage.weights, rank.weights_gib), ("KV", stage.available, rank.available_kv_gib))
            found += [
                Figure(name=f"{what} of stage {rank.stage}, GiB", predicted=size / GIB, logged=logged)
                for what, size, logged in pairs
                if logged
            ]
    if started.pool_tokens:
        found.append(Figure(name="pool, tokens", predicted=held.pool, logged=started.pool_tokens))
    return tuple(found)
