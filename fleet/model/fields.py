"""Numbers out of config.json, each refused with its name where it makes no sense."""

from collections.abc import Sequence
from typing import Any

from fleet.model.shape import ModelError

Config = dict[str, Any]


def number(config: Config, *names: str, least: int = 1) -> int | None:
    """The first of these fields that is set, or None. ModelError where it is no whole number of at least `least`."""
    for name in names:
        value = config.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            wanted = "a positive integer" if least == 1 else f"an integer of at least {least}"
            raise ModelError(f"config.json: {name}: want {wanted}, found {_short(value)}")
        if value > 2**53:
            raise ModelError(f"config.json: {name}: want a number that a model can have, found {_short(value)}")
        return value
    return None


def required(config: Config, *names: str) -> int:
    """The field, or ModelError that names it."""
    value = number(config, *names)
    if value is None:
        raise ModelError(f"config.json: {names[0]}: want a positive integer, found nothing")
    return value


def layer_count(config: Config) -> int:
    """num_hidden_layers; `read_architecture` has refused more than a model can have."""
    return required(config, "num_hidden_layers")


def words(config: Config, name: str) -> tuple[str, ...] | None:
    """A list of texts, or None where the field is not set."""
    value = config.get(name)
    if value is None:
        return None
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(v, str) for v in value):
        raise ModelError(f"config.json: {name}: want a list of texts, found {_short(value)}")
    return tuple(value)


def layer_list(config: Config, name: str) -> frozenset[int]:
    """A list of layers; empty where the field is not set."""
    value = config.get(name)
    if value is None:
        return frozenset()
    if not isinstance(value, list) or not all(isinstance(n, int) and not isinstance(n, bool) for n in value):
        raise ModelError(f"config.json: {name}: want a list of layers, found {_short(value)}")
    return frozenset(value)


def mapping(config: Config, name: str) -> Config:
    """A nested object; empty where the field is not set."""
    value = config.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ModelError(f"config.json: {name}: want an object, found {_short(value)}")
    return value


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
