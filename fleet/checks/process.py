"""The process that runs, against the current release: not the files, which somebody may have put back."""

from collections.abc import Iterator

from fleet.drift import Case, Seen, check, in_order
from fleet.known import Undecidable
from fleet.nodes.running import masked

RESTART = "deploy to {node} anew (fleet stop {service} {node}, then deploy): the files alone do not change what runs"
OF_THE_RUNTIME = {"PATH", "HOME", "HOSTNAME", "TERM", "LANG", "container"}
INJECTED = ("NVIDIA_",)
"""Set by the devices' CDI specification."""


@check("process", remedy="look at it on {node}: systemctl status vllm-{service}")
def process(case: Case) -> Iterator[Seen]:
    """The main process of the engine is found in the cgroup of its unit."""
    running = case.plan.facts.running if case.plan.facts else None
    if case.runs and running is not None and not running.error and case.engine is None:
        raise Undecidable(f"an engine's process in the cgroup of {case.unit}", "none")
    yield from ()


@check("command", remedy=RESTART)
def command(case: Case) -> Iterator[Seen]:
    """The container was started with the command of the release: its image, devices, mounts and limits."""
    engine = case.engine
    if engine is None:
        return
    want = masked(tuple(map(str, case.document.get("command") or ())))
    if engine.command is None:
        yield Seen(want=f"{' '.join(want[:1])} run, in the cgroup of {case.unit}", got="no such process")
    elif engine.command != want:
        diff = in_order(want, engine.command, ("release", "running"))
        yield Seen(want="the command of the release", got=_changed(diff), diff=diff)


@check("argv", remedy=RESTART)
def argv(case: Case) -> Iterator[Seen]:
    """The engine runs with the argv of the release, word for word and in order."""
    engine = case.engine
    want = masked(tuple(map(str, case.document.get("argv") or ()))) if engine else ()
    if engine is not None and engine.argv != want:
        diff = in_order(want, engine.argv, ("release", "running"))
        yield Seen(want="the argv of the release", got=_changed(diff), diff=diff)


def _changed(diff: tuple[str, ...]) -> str:
    gone = [line[1:] for line in diff if line.startswith("-") and not line.startswith("---")]
    new = [line[1:] for line in diff if line.startswith("+") and not line.startswith("+++")]
    told = [f"without {' '.join(gone)}"] if gone else []
    told += [f"with {' '.join(new)}"] if new else []
    return ", ".join(told) or "the words in another order"


@check("env", remedy=RESTART)
def env(case: Case) -> Iterator[Seen]:
    """The engine has the variables of the release with their values, and none that nobody declared."""
    engine = case.engine
    if engine is None:
        return
    want = {str(name): str(value) for name, value in (case.document.get("env") or {}).items()}
    for name, value in sorted(want.items()):
        if name not in engine.env_names:
            yield Seen(want=f"{name}={value}", got="no such variable")
        elif name in engine.env and engine.env[name] != value:
            yield Seen(want=f"{name}={value}", got=engine.env[name])
        elif name not in engine.env and name not in (case.document.get("secrets") or ()):
            yield Seen(
                want=f"{name}={value}", got="a value that is not shown: it is not in the env file of the release"
            )
    yield from _strangers(case, want, set(engine.env_names))


def _strangers(case: Case, want: dict[str, str], names: set[str]) -> Iterator[Seen]:
    image = case.engine.image if case.engine else None
    declared = {*want, *map(str, case.document.get("secrets") or ()), *OF_THE_RUNTIME}
    own = set(image.env_names or ()) if image else set()
    for name in sorted(names - declared - own):
        if not name.startswith(INJECTED) and (image is not None and image.env_names is not None):
            yield Seen(want=f"no {name}", got=f"{name} with a value that is not shown")


@check("secret-env", remedy=RESTART)
def secret_env(case: Case) -> Iterator[Seen]:
    """The engine has each secret with the value that lies in the release, compared by digest."""
    engine, lies = case.engine, case.installed
    if engine is None or lies is None:
        return
    for name in sorted(map(str, case.document.get("secrets") or ())):
        if name not in engine.env_names:
            yield Seen(want=f"secret {name}", got="no such variable")
        elif case.digests is None or name not in case.digests:
            continue
        elif engine.secrets.get(name) != case.digests[name]:
            yield Seen(want=f"secret {name} as declared", got="another value")


@check("running-image", remedy=RESTART)
def image(case: Case) -> Iterator[Seen]:
    """The container runs the image of the release, by digest."""
    engine = case.engine
    if engine is None:
        return
    want = str(case.document.get("image", "")).rpartition("@")[2]
    found = engine.image.digest if engine.image else None
    if found is None:
        yield Seen(want=want, got="a container whose image the store of the node does not tell")
    elif found != want:
        yield Seen(want=want, got=found)


@check("mounts", remedy=RESTART)
def mounts(case: Case) -> Iterator[Seen]:
    """Files and folders that the container was given are what lies there now, and what they were when it was proven."""
    engine, lies = case.engine, case.installed
    for mounted in engine.mounts if engine else ():
        if not mounted.same:
            yield Seen(want=f"{mounted.target} as it lies at {mounted.source}", got="what lay there when it started")
        proven = lies.mounted.get(mounted.source) if lies else None
        if proven is not None and mounted.sha256 != proven:
            found = f"sha256 {mounted.sha256[:16]}..." if mounted.sha256 else "no file"
            yield Seen(want=f"{mounted.target} with sha256 {proven[:16]}..., as at its start", got=found)
