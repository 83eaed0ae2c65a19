"""How services and a fleet may be changed and watched, as their owner declares it."""

import re
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from fleet.frozen import Frozen
from fleet.values import WEEK, Count, Integer, Number, Seconds, Word, at_most


class Hook(Frozen):
    """A command of the owner: words, not a shell line. `{node}`, `{service}`, `{address}`, `{port}` are filled in."""

    command: tuple[Word, ...] = Field(min_length=1)
    on: Literal["controller", "node"] = "controller"


class Heartbeat(Frozen):
    """A token is asked for once a minute; after so many misses one after the other the service is restarted."""

    deadline_s: Annotated[Integer, Field(ge=1, le=600)] = 30
    misses: Annotated[Integer, Field(ge=1), at_most(1000)] = 3


class ServicePolicy(Frozen):
    """How one service is started, drained and proven. Times in seconds."""

    start_budget_s: Seconds = 1800
    stop_grace_s: Seconds = 60
    restart_limit: Annotated[Integer, Field(ge=0), at_most(1000)] = 5
    """Restarts within `restart_window_s` before systemd gives up."""
    restart_window_s: Seconds = 7200
    drain: Hook | None = None
    undrain: Hook | None = None
    drain_s: Annotated[Integer, Field(ge=0), at_most(WEEK)] = 300
    proof: tuple[str, ...] = ("smoke", "degeneration")
    """Probes that a fresh start must pass, by file name in probes/. `/health` is always awaited."""
    proof_s: Seconds = 600
    """How long each probe may take."""
    proof_trials: Annotated[Integer, Field(ge=31), at_most(10_000)] = 40
    """Answers of a degeneration run. With fewer than 31 a fault in a fifth of them is missed in more than 1 of 100."""
    undo_margin_s: Seconds = 60
    """What the node waits for a proof beyond all that a start may take, before it undoes by itself."""
    replicas: Count = 1
    """Different nodes that the service must be placed on at least."""
    mixed: tuple[Literal["image", "driver", "gpus"], ...] = ()
    """In what its replicas may differ."""
    heartbeat: Heartbeat | None = None
    """None: nobody watches. Never during `start_budget_s` from the start of the process, nor while a rollout proves."""
    last_replica: Literal["keep", "take"] = "keep"
    """May the only proven replica of this service be restarted?"""


class BoundaryPolicy(Frozen):
    """What is done where a stage of an index-sharing model would start on a layer that computes no indices."""

    repair: Literal["auto", "aligned", "pattern", "patch", "none"] = "auto"
    """auto: the first that may be done of aligned, pattern and patch. A name: only that one. none: nothing."""
    max_pool_loss: Annotated[Number, Field(ge=0, le=1)] = 0.05
    """Share of the KV pool that an aligned partition may cost."""


class RolloutPolicy(Frozen):
    """How a fleet is rolled: batch sizes, what a failing host means, room in GiB, lock in seconds."""

    batches: tuple[Annotated[str, BeforeValidator(str)], ...] = ("1", "25%")
    """The last entry repeats until every host had its turn."""
    on_failed_gate: Literal["stop", "host"] = "stop"
    on_unreachable: Literal["stop", "host"] = "stop"
    lock_lease_s: Annotated[Integer, Field(ge=5), at_most(WEEK)] = 900
    look_again_s: Annotated[Integer, Field(ge=0), at_most(WEEK)] = 60
    """A batch that begins later than this after the last look at the nodes begins with another look."""
    min_free_gib: Annotated[Number, Field(ge=0)] = 2.0
    """Room that must stay free where releases and images lie."""

    @model_validator(mode="after")
    def _batches_are_counts_or_percents(self) -> Self:
        for size in self.batches or ("",):
            if not re.fullmatch(r"[1-9]\d*|([1-9]\d?|100)%", size):
                raise ValueError(f'batches: want counts or percents such as [1, "25%"], found {size!r}')
        return self
