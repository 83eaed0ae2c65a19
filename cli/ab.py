"""`fleet ab`: one service on one node, as it runs (control) and as it might (arm), side by side.

Each step is a verb of its own and goes through deploy.py and verify.py, with their gates, locks and undo.
What is done is kept in a folder, so that an A/B that was interrupted goes on where it was.
"""

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import ab_steps as steps
from cli.ab_trial import Outcome, Trial, trial_of
from cli.machine import Json, fail, tell

app = typer.Typer(help=__doc__, no_args_is_help=True)


@dataclasses.dataclass(frozen=True)
class Place:
    """Which A/B: every step is told."""

    service: Annotated[str, typer.Argument(help="A service of group_data.")]
    node: Annotated[str, typer.Argument(help="The node it is done on.")]
    data: Annotated[
        list[str] | None, typer.Option("--data", help="What makes the arm: key=value, as deploy.py takes it.")
    ] = None
    folder: Annotated[Path | None, typer.Option("--folder", help="Where it is kept; default: ab/SERVICE-NODE.")] = None
    fleet: Annotated[str | None, typer.Option("--fleet", envvar="FLEET", help="As everywhere.")] = None
    as_json: Json = False

    @property
    def trial(self) -> Trial:
        """The A/B in its folder. Exits 1 where the folder has another one."""
        return trial_of(self.service, self.node, self.folder, self.fleet, self.data)


@dataclasses.dataclass(frozen=True)
class Asking:
    """What both arms are asked."""

    probes: Annotated[str, typer.Option("--probes", help="What both arms are asked with.")] = (
        "smoke,degeneration,quality,needle,speed"
    )
    trials: Annotated[int | None, typer.Option("--trials", help="Of probes that count: 200 for a quality bar.")] = None
    seconds: Annotated[int | None, typer.Option("--seconds", help="For each probe; default: the policy's proof_s.")] = (
        None
    )

    @property
    def words(self) -> tuple[str, int | None, int | None]:
        return self.probes, self.trials, self.seconds


@dataclasses.dataclass(frozen=True)
class Limits:
    """What the owner asks of the arm."""

    pool_gain: Annotated[float | None, typer.Option("--pool-gain", help="Pool at least so many percent larger.")] = None
    tpot_loss: Annotated[float, typer.Option("--tpot-loss", help="P99 TPOT at most so many percent longer.")] = 10
    ttft_loss: Annotated[float | None, typer.Option("--ttft-loss", help="P99 TTFT at most so many percent longer.")] = (
        None
    )
    throughput_loss: Annotated[
        float | None, typer.Option("--throughput-loss", help="Tokens/s at most so many percent fewer.")
    ] = None

    @property
    def bounds(self) -> Any:
        """Those of `fleet.proof`. Exits 1 with the option that is wrong."""
        from pydantic import ValidationError

        from fleet.proof.ab.verdict import Bounds

        given = {name: getattr(self, name) for name in Bounds.model_fields}
        try:
            return Bounds.model_validate(given)
        except ValidationError as error:
            wrong = error.errors()[0]
            fail(f"--{str(wrong['loc'][0]).replace('_', '-')}: {wrong['msg']}, found {wrong['input']!r}")


def _tell(name: str, trial: Trial, outcome: Outcome) -> None:
    """What came of a step, for machines: the verdict where it ends with one, else where its documents lie."""
    if outcome.verdict is not None:
        tell(outcome.verdict)
        return
    files = [str(trial.path(file)) for file in outcome.files]
    told = {"step": name, "service": trial.service, "node": trial.node, "said": outcome.said, "files": files}
    tell({"error": outcome.said, **told} if outcome.code else told)


def step(function: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Make a function of these dataclasses a command that has all their fields as options, and tell what came of it."""
    groups = list(inspect.signature(function).parameters.values())
    fields = {group.name: dataclasses.fields(group.annotation) for group in groups}

    def command(**given: Any) -> None:
        asked = [group.annotation(**{one.name: given[one.name] for one in fields[group.name]}) for group in groups]
        outcome = function(*asked)
        if outcome.said:
            typer.echo(outcome.said, err=bool(outcome.code) or given["as_json"])
        if given["as_json"]:
            _tell(function.__name__, asked[0].trial, outcome)
        if outcome.code:
            raise typer.Exit(outcome.code)

    flat = [one for group in groups for one in fields[group.name]]
    flat.sort(key=lambda one: one.default is not dataclasses.MISSING)
    options = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if one.default is dataclasses.MISSING else one.default,
            annotation=one.type,
        )
        for one in flat
    ]
    command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.type for one in flat}
    app.command(function.__name__, help=function.__doc__)(command)
    return function


@step
def preflight(place: Place) -> Outcome:
    """Plan and judge both arms. Touches nothing. Exit 1 where a gate refuses one."""
    return steps.preflight(place.trial)


@step
def control(place: Place, asking: Asking) -> Outcome:
    """Ask what runs now: the baseline."""
    return steps.control(place.trial, *asking.words)


@step
def boot(place: Place) -> Outcome:
    """Activate the arm on the node, by a rollout; where it does not prove itself, the control comes back."""
    return steps.boot(place.trial)


@step
def verify(place: Place, asking: Asking) -> Outcome:
    """Ask the arm the same."""
    return steps.verify(place.trial, *asking.words)


@step
def verdict(place: Place, limits: Limits) -> Outcome:
    """One table of both arms and a decision; verdict.json, .md and .html. Exit 0: adopt, 2: go back."""
    return steps.verdict(place.trial, limits.bounds, place.as_json)


@step
def restore(place: Place) -> Outcome:
    """Put the control back where the arm was booted."""
    return steps.restore(place.trial)


@step
def run(place: Place, asking: Asking, limits: Limits) -> Outcome:
    """Every step in order, without those that are done; on "go back" the control is put back. Exit 0, 1 or 2."""
    trial, bounds = place.trial, limits.bounds
    todo: list[tuple[str, Callable[[], Outcome]]] = [
        ("preflight.json", lambda: steps.preflight(trial)),
        ("control.json", lambda: steps.control(trial, *asking.words)),
        ("booted.json", lambda: steps.boot(trial)),
        ("arm.json", lambda: steps.verify(trial, *asking.words)),
    ]
    for done, one in todo:
        if trial.read(done) is None and (ended := one()).code:
            return ended
    found = steps.verdict(trial, bounds, place.as_json)
    told = found.verdict or {}
    if found.code == 0:
        said = f"adopted on {trial.node}: declare {' '.join(trial.data)} for {trial.service}, "
        return dataclasses.replace(found, said=f"{said}or the next rollout takes it back")
    if steps.restore(trial).code:
        fail(
            "go back: the control could NOT be put back; see above, then: "
            f"fleet ab restore {trial.service} {trial.node}",
            **told,
            restored=False,
        )
    return dataclasses.replace(found, verdict={**told, "restored": True})
