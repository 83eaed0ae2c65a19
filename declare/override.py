"""`--data NAME=VALUE`: settings for one run, laid over everything that is declared."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator

from declare.located import Located, Origin, locate
from declare.problem import found, line, unknown
from declare.validate import build
from fleet.declaration import ServiceDeclaration, Waiver
from fleet.frozen import Frozen
from fleet.values import Count

LAYOUT = ("tp", "pp", "dp", "partition", "device_order")
SERVICE: dict[str, tuple[str, ...]] = {
    **{name: ("layout", name) for name in LAYOUT},
    **{
        name: (name,)
        for name in (
            "objective",
            "max_model_len",
            "kv_cache_dtype",
            "speculative",
            "gpu_memory_utilization",
            "disable_custom_all_reduce",
            "v2_runner",
            "hf_overrides",
            "boundary_repaired",
            "numa_bind",
            "nodes",
            "master_port",
            "port",
            "model",
        )
    },
    "boundary_repair": ("boundary", "repair"),
    "max_pool_loss": ("boundary", "max_pool_loss"),
    "image_digest": ("image", "digest"),
    "engine": ("image", "engine"),
    **{name: ("policy", name) for name in ("start_budget_s", "proof", "last_replica")},
}
"""Names of service settings, and where each stands in a service."""
ROLLOUT = ("batches", "on_failed_gate", "on_unreachable", "min_free_gib")
DELIVERY = ("rate_mib_s", "serves", "parallel")
NAMES = (
    *SERVICE,
    *ROLLOUT,
    *DELIVERY,
    "service",
    "deliver",
    "rehash",
    "clean",
    "reboot",
    "prune",
    "report",
    "html",
    "history",
    "waive",
    "probes",
    "trials",
    "seconds",
)
"""Every name that `--data` may have, besides those of pyinfra's own SSH connector."""
LISTS = ("proof", "batches", "probes", "nodes")
TEXTS = ("engine", "image_digest", "kv_cache_dtype", "model", "service")
TAKEN_BACK = ("partition", "device_order")
"""An empty value takes what is declared back."""
CONNECTION_REFUSED = {
    "ssh_hostname": "the address in NODE.yaml: one address for a whole fleet would make all nodes one",
    "ssh_strict_host_key_checking": "host keys that are always checked",
}
FILES = ("ssh_key", "ssh_known_hosts_file", "ssh_config_file")
"""Of the last, the null device stands for none."""


class OfOneRun(Frozen):
    """What is said of one run and is no setting of a service, of the rollout or of a delivery."""

    service: str | None = None
    """The run is about this service alone; None: about every one."""
    prune: bool = False
    """Take away what is no longer declared."""
    report: str | None = None
    """Path of the JSON file that tells what came of the run."""
    deliver: bool = False
    """deploy.py brings checkpoints and images before it judges."""
    rehash: bool = False
    """Read every byte of every delivered checkpoint again instead of trusting sizes and times."""
    clean: bool = False
    """Take away what deliveries left and no release needs."""
    reboot: bool = False
    """bootstrap.py may reboot a node that needs it, one at a time."""
    html: str | None = None
    """Path of an audit's HTML report."""
    history: str | None = None
    """Folder that keeps audits, or what verify.py found, one JSON file each."""
    probes: tuple[str, ...] = ()
    """What verify.py asks with; empty: the policy's proof."""
    trials: Count | None = None
    """How often a probe of verify.py that counts asks."""
    seconds: Count | None = None
    """Time of each probe of verify.py; None: the policy's proof_s."""
    waive: Annotated[tuple[str, ...], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)] = ()
    """`GATE:REASON` of each waiver, as typed."""


class Overrides(OfOneRun):
    """What one run changes. `settings` and `rollout` hold the values as pyinfra parsed them, by name."""

    settings: dict[str, Any] = {}
    rollout: dict[str, Any] = {}
    delivery: dict[str, Any] = {}
    waivers: tuple[Waiver, ...] = ()

    def about(self, service: str | None) -> "Overrides":
        """The same for a command about one service, unless `--data` names one. Its waivers may be of nodes too."""
        return self if self.service is not None else self.model_copy(update={"service": service})

    def rollout_layer(self) -> Located:
        """The last layer of the rollout's policy."""
        return Located({name: _given(name, value) for name, value in self.rollout.items()}, Origin())

    def delivery_layer(self) -> Located:
        """The last layer of the delivery's policy."""
        return Located({name: locate(value, option(name)) for name, value in self.delivery.items()}, Origin())

    def service_layer(self, service: str) -> Located:
        """The last layer of one service; empty where the run leaves that service alone."""
        layer = Located({}, Origin())
        if self.service not in (None, service):
            return layer
        for name, value in self.settings.items():
            *outer, field = SERVICE[name]
            given = _given(name, value)
            if not outer:
                layer = layer.with_entry(field, given)
                continue
            section = layer.get(outer[0]) or Located({}, given.origin)
            if name == "image_digest":
                section = section.with_entry("digest_file", Located(None, given.origin))
            layer = layer.with_entry(outer[0], section.with_entry(field, given))
        return layer

    @property
    def without_sizes(self) -> tuple[str, ...]:
        """Settings of a layout that do not say how wide TP is, where none does: they fit no layout that is "auto"."""
        given = tuple(setting for setting in LAYOUT if setting in self.settings)
        return () if set(given) & {"tp", "pp", "dp"} else given

    def unclear(self, services: Iterable[ServiceDeclaration]) -> list[str]:
        """What such settings lack, for services of this run as they were built: without these settings."""
        names = {
            service.name for service in services if service.layout == "auto" and self.service in (None, service.name)
        }
        way = "tp or pp beside it" if self.service else "tp or pp beside it, or service=NAME"
        return [
            line(option(setting), f'{way}, since the layout of {name} is "auto"', f"{setting} alone")
            for name in sorted(names)
            for setting in self.without_sizes
        ]


def as_typed(words: Iterable[str]) -> dict[str, object]:
    """NAME=VALUE words by name. What is a text is not read as a number: engine 0.30 is not 0.3."""
    pairs = (word.partition("=") for word in words)
    return {name: value if name in TEXTS else parsed(value) for name, _, value in pairs}


def parsed(word: str) -> object:
    """A value as pyinfra reads it from `--data`: true, false, an integer, JSON, or else text.

    Of our own, because importing pyinfra's command line patches the whole process for gevent.
    """
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for read in (int, json.loads):
        try:
            value: object = read(word)
        except (ValueError, RecursionError):
            continue
        return value
    return word


def option(name: str) -> Origin:
    """The origin of an override."""
    return Origin(f"--data {name}")


def _given(name: str, value: object) -> Located:
    if name in LISTS:
        value = _words(value)
    elif name in TAKEN_BACK and value == "":
        value = None
    elif not _is_json(value):
        value = str(value)
    return locate(value, option(name))


def _is_json(value: object) -> bool:
    """NaN and the infinities are not: Python reads them, and the engine could not."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def _words(value: object) -> object:
    """`1,25%` and `1` as the lists that they mean."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    return [value] if isinstance(value, int) and not isinstance(value, bool) else value


def read_overrides(data: Mapping[str, object], problems: list[str]) -> Overrides:
    """The overrides in `data`, which pyinfra has parsed (`true`, `8`, JSON, text). Values are validated when merged."""
    problems.extend(_strangers(data))
    known = {name: value for name, value in data.items() if name in NAMES and not _says_nothing(name, value)}
    run = {name: _given(name, known[name]) for name in OfOneRun.model_fields if name in known}
    own = build(OfOneRun, Located(run, Origin()), problems) or OfOneRun()
    return Overrides(
        **dict(own),
        settings={name: value for name, value in known.items() if name in SERVICE},
        rollout={name: value for name, value in known.items() if name in ROLLOUT},
        delivery={name: value for name, value in known.items() if name in DELIVERY},
        waivers=tuple(waiver for text in own.waive if (waiver := _waiver(text, own.service, problems)) is not None),
    )


def _strangers(data: Mapping[str, object]) -> list[str]:
    lines = []
    for name in data:
        if name in CONNECTION_REFUSED:
            lines.append(line(option(name), CONNECTION_REFUSED[name], "an override for one run"))
        elif name not in (known := _connection_names() if name.startswith("ssh_") else NAMES):
            lines.append(unknown(option(name), name, known, "name"))
        elif _says_nothing(name, data[name]):
            lines.append(line(option(name), "a value", "null" if data[name] is None else "nothing"))
        elif name in FILES and not _is_there(name, str(data[name])):
            lines.append(line(option(name), "a file that is there", found(Located(data[name], option(name)))))
    return lines


def _is_there(name: str, place: str) -> bool:
    return Path(place).expanduser().is_file() or (name == "ssh_config_file" and place == os.devnull)


def _says_nothing(name: str, value: object) -> bool:
    """A user without a name, for instance, would be nobody in particular. Who wants an empty list says `[]`."""
    if isinstance(value, str):
        return name not in TAKEN_BACK and not value.strip(" ," if name in LISTS else None)
    return value is None


def _connection_names() -> set[str]:
    """What pyinfra's own SSH connector takes; asked only where such a name was given, for it loads paramiko."""
    from pyinfra.connectors.ssh import connector_data_meta

    return set(connector_data_meta)


def _waiver(text: str, service: str | None, problems: list[str]) -> Waiver | None:
    gate, colon, reason = text.partition(":")
    if not re.fullmatch(r"[a-z][a-z0-9-]*", gate.strip()) or not colon:
        want = "GATE:REASON, such as 'waive=pp-evidence:200 trials on 2026-03-01, none bad'"
        problems.append(line(option("waive"), want, found(locate(text, option("waive")))))
        return None
    given = {"gate": gate.strip(), "reason": reason.strip(), "services": [service] if service else []}
    tree = Located({name: locate(value, option("waive")) for name, value in given.items()}, option("waive"))
    return build(Waiver, tree, problems)
