"""What `vllm serve` of one version accepts, as data. The files are made from the real parser: `fleet engine dump`."""

from functools import cached_property
from typing import Any

from fleet.frozen import Frozen


class FlagInfo(Frozen):
    """One argument of the parser; the only one without a name (`flag` None) is the model."""

    flag: str | None
    dest: str
    action: str
    """store, switch (takes no value), boolean (`--x` and `--no-x`), append, help, or a class of vLLM's own."""
    type: str
    """How a word becomes a value: str, int, json, config, human_readable_int, ...; "optional X" takes None too."""
    aliases: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()
    """Spellings that mean false."""
    nargs: str | int | None = None
    choices: tuple[Any, ...] | None = None
    known: tuple[Any, ...] | None = None
    """Names that the version itself knows, where the parser takes any: a plugin may bring others."""
    const: Any = None
    default: Any = None
    deprecated: bool = False
    config: str | None = None
    """The config that the parser builds from its JSON."""
    later: str | None = None
    """The config that the engine builds from its JSON when it starts: the parser takes any JSON."""
    origin: str | None = None
    """Class and field of vLLM that it sets."""
    field: dict[str, Any] | None = None
    """What that field asks of the value when the engine starts."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every spelling."""
        return (*((self.flag,) if self.flag else ()), *self.aliases, *self.negative)

    @property
    def takes_value(self) -> bool:
        """Is a word after it its value?"""
        return self.action not in ("switch", "boolean", "help")

    @property
    def shown_default(self) -> str:
        """The default as an operator reads it."""
        return "-" if self.default is None else str(self.default)


class ConfigInfo(Frozen):
    """The keys of a JSON argument, each with what pydantic asks of it, and the names of checks written in Python."""

    fields: dict[str, dict[str, Any]]
    rules: tuple[tuple[str, str], ...] = ()
    """(before or after, name), outermost first."""


class Variable(Frozen):
    """An environment variable that the engine reads: type and default as its source says."""

    type: str | None = None
    default: str | None = None


class Capability(Frozen):
    """What a version can do beyond its flags, and how that is known."""

    value: Any
    source: str


class Catalog(Frozen):
    """One version."""

    version: str
    source: str
    """Where the data is from, and how."""
    parser: str
    """Digest of what vLLM does to the words before argparse sees them."""
    flags: tuple[FlagInfo, ...]
    configs: dict[str, ConfigInfo]
    rules: dict[str, str]
    """Checks written in Python, with a digest of their source."""
    tables: dict[str, Any]
    """Names that these checks look up."""
    environment: dict[str, Variable]
    capabilities: dict[str, Capability] = {}

    @cached_property
    def options(self) -> dict[str, FlagInfo]:
        """Every spelling of every flag."""
        return {name: flag for flag in self.flags for name in flag.names}

    @cached_property
    def by_dest(self) -> dict[str, FlagInfo]:
        """Flags by the name of their setting, such as tensor_parallel_size."""
        return {flag.dest: flag for flag in self.flags}

    @cached_property
    def validators(self) -> dict[str, Any]:
        """Built when they are first needed, see configs.py."""
        return {}
