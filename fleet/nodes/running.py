"""What runs on a node, read from the processes themselves and from the engines' own reports, for an audit."""

from fleet.frozen import Frozen

MASK = "***"
"""Stands where a secret may have stood: such a word never leaves the node."""


class RunningImage(Frozen):
    """The image that a container runs. `digest` None: the image store does not tell."""

    digest: str | None = None
    reference: str | None = None
    env_names: tuple[str, ...] | None = None
    """Variables that the image itself sets; None where its configuration could not be read."""


class Mounted(Frozen):
    """A folder or file that the container was given: is it, seen from within, still what lies at its source?"""

    source: str
    target: str
    same: bool
    sha256: str | None = None
    """Of what the process sees at `target`, where that is a file."""


class Report(Frozen):
    """What an engine answered to one GET of the node itself. `status` None: nobody answered."""

    path: str
    status: int | None = None
    body: str = ""


class EngineProcess(Frozen):
    """The main process of one engine on the node, in a container or not."""

    pid: int
    unit: str | None
    """The systemd unit that it belongs to, where the cgroup tells."""
    argv: tuple[str, ...]
    """From `vllm` on; a word that may be a secret is masked."""
    env: dict[str, str] = {}
    """Variables that stand in the env file of the current release, without secrets."""
    env_names: tuple[str, ...] = ()
    """Names of all its variables."""
    secrets: dict[str, str] = {}
    """Name -> sha256(key of the run + value)."""
    command: tuple[str, ...] | None = None
    """argv of the `podman run` or `docker run` that started it; masked like `argv`."""
    image: RunningImage | None = None
    mounts: tuple[Mounted, ...] = ()
    reports: tuple[Report, ...] = ()

    def report(self, path: str) -> Report:
        """The answer to that path; one without a status where it was not asked."""
        return next((one for one in self.reports if one.path == path), Report(path=path))


class Running(Frozen):
    """All engines of a node, those included that nobody declared."""

    engines: tuple[EngineProcess, ...] = ()
    error: str | None = None

    def of(self, unit: str) -> EngineProcess | None:
        """The engine of a unit."""
        return next((one for one in self.engines if one.unit == unit), None)


def masked(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words with the values of `--api-key` and its like masked, and those of `--env NAME=VALUE`."""
    told: list[str] = []
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        told.append(_masked(before, word))
    return tuple(told)


def _masked(before: str, word: str) -> str:
    flag, equals, _ = word.partition("=")
    if _names_a_secret(before) and not word.startswith("--"):
        return MASK
    if equals and (_names_a_secret(flag) or before in ("-e", "--env")):
        return f"{flag}={MASK}"
    return word


def _names_a_secret(flag: str) -> bool:
    ends = ("-key", "-token", "-secret", "-password")
    return flag.startswith("--") and flag.endswith(ends)
