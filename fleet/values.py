"""Kinds of values that a declaration takes, each with what is wanted where a text is not one."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from fleet.engines.patch import PATCH_NAME
from fleet.releases.systemd import control_character, exec_word

_SMALL = "[a-z][a-z0-9-]{0,40}"
SERVICE_NAME = re.compile(rf"(?!lock\Z|fleet-){_SMALL}")
"""The lock of a node lies beside the folders of its services, and units named vllm-fleet-... are this project's own."""
A_SERVICE_NAME = f"a service name: small letters, digits, dashes ({_SMALL}), neither lock nor fleet-..."
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
FLAG = re.compile(r"--[a-z0-9][a-z0-9._-]*")


def formed(pattern: re.Pattern[str], what: str) -> AfterValidator:
    """A text of this form; `what` says it in words."""

    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(f"want {what}, found {value!r}")
        return value

    return AfterValidator(check)


def _matching(pattern: re.Pattern[str], what: str) -> AfterValidator:
    """The same, which shows the form too."""
    return formed(pattern, f"{what} ({pattern.pattern})")


def _word(value: str) -> str:
    exec_word(value)  # QuotingError is a ValueError
    return value


def _variable(value: str) -> str:
    if (bad := control_character(value)) is not None:
        raise ValueError(f"want text without control characters, found {bad!r}")
    return value


Word = Annotated[str, AfterValidator(_word)]
"""What can be one item of an argv."""
EnvValue = Annotated[str, AfterValidator(_variable)]
ServiceName = Annotated[str, formed(SERVICE_NAME, A_SERVICE_NAME)]
NodeName = Annotated[str, _matching(NODE_NAME, "a node name: letters, digits, dots, dashes")]
EnvName = Annotated[str, _matching(ENV_NAME, "an environment variable's name")]
Digest = Annotated[str, _matching(DIGEST, "a digest: sha256: and 64 hex digits")]
Flag = Annotated[str, _matching(FLAG, "a flag such as --max-num-seqs")]
AbsolutePath = Annotated[str, _matching(re.compile(r"/[^\x00-\x1f:]*"), "an absolute path without a colon")]
"""Of what a container sees: podman and docker take a colon in --volume for the end of the path."""
Address = Annotated[str, _matching(re.compile(r"[A-Za-z0-9:][A-Za-z0-9.:_%-]*"), "a host name or an IP address")]
UserName = Annotated[str, formed(re.compile(r"\S+"), "a user's name")]
PatchName = Annotated[str, _matching(PATCH_NAME, "a patch's name: small letters, digits, dashes")]
Integer = Annotated[int, Field(strict=True)]
"""Strict, so that `true` and "8" are told and not taken for 1 and 8."""
Number = Annotated[float, Field(strict=True)]
Port = Annotated[Integer, Field(ge=1, le=65535)]
Count = Annotated[Integer, Field(ge=1)]


def at_most(most: int) -> AfterValidator:
    """A number is no more than this."""

    def check(value: int) -> int:
        if value > most:
            raise ValueError(f"want at most {most}, found {value}")
        return value

    return AfterValidator(check)


Width = Annotated[Count, at_most(1024)]
"""Of a layout: more than any deployment has, and few enough to be counted out stage by stage."""
WEEK = 7 * 86400
Seconds = Annotated[Count, at_most(WEEK)]
"""A time that a policy waits. systemd ignores one that it cannot hold, and would wait for ever."""


def _from_comma_list(value: object) -> object:
    """`--data partition=41,37` and `partition: "41,37"` mean what `[41, 37]` means."""
    if isinstance(value, str) and re.fullmatch(r"\s*-?\d+(\s*,\s*-?\d+)*\s*", value):
        return [int(part) for part in value.split(",")]
    return [value] if isinstance(value, int) and not isinstance(value, bool) else value


def _several(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if names is None:
        return names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"want each node once, found {', '.join(twice)} more than once")
    if len(names) < 2:
        raise ValueError(f"want two nodes or more (one alone serves without it), found {list(names)}")
    return names


IntList = Annotated[tuple[Integer, ...], BeforeValidator(_from_comma_list)]
NodeList = Annotated[tuple[NodeName, ...] | None, AfterValidator(_several)]
Switch = bool | Literal["auto"]
