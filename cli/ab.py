"""`fleet ab`: one service on one node, as it runs (control) and as it might (arm), side by side.

Each step is a verb of its own and goes through deploy.py, verify.py and rollback.py, with their gates, locks and undo.
What is done is kept in a folder, so that an A/B that was interrupted goes on where it was.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

app = typer.Typer(help=__doc__, no_args_is_help=True)
PROJECT = Path(__file__).resolve().parent.parent
PROBES = "smoke,degeneration,quality,needle,speed"
Service = Annotated[str, typer.Argument(help="A service of group_data.")]
Node = Annotated[str, typer.Argument(help="The node it is done on.")]
Data = Annotated[list[str] | None, typer.Option("--data", help="What makes the arm: key=value, as deploy.py takes it.")]
Folder = Annotated[Path | None, typer.Option("--folder", help="Where it is kept; default: ab/SERVICE-NODE.")]
FleetName = Annotated[str | None, typer.Option("--fleet", envvar="FLEET", help="As everywhere.")]
Probes = Annotated[str, typer.Option("--probes", help="What both arms are asked with.")]
Trials = Annotated[int | None, typer.Option("--trials", help="Of probes that count: 200 for a quality bar.")]
Seconds = Annotated[int | None, typer.Option("--seconds", help="For each probe; default: the policy's proof_s.")]
PoolGain = Annotated[float | None, typer.Option("--pool-gain", help="Pool at least so many percent larger.")]
TpotLoss = Annotated[float, typer.Option("--tpot-loss", help="P99 TPOT at most so many percent longer.")]
TtftLoss = Annotated[float | None, typer.Option("--ttft-loss", help="P99 TTFT at most so many percent longer.")]
Throughput = Annotated[float | None, typer.Option("--throughput-loss", help="Tokens/s at most so many percent fewer.")]
Json = Annotated[bool, typer.Option("--json", help="For machines.")]


@dataclass
class Trial:
    """One A/B and the folder that keeps it."""

    service: str
    node: str
    folder: Path
    fleet: str | None
    data: list[str] = field(default_factory=list)

    def pyinfra(self, verb: str, *words: str, arm: bool = False) -> int:
        """Run a verb of the fleet on this node and service; its exit code. `arm`: with what makes the arm."""
        command = [str(Path(sys.executable).parent / "pyinfra"), "inventory.py", verb, "--limit", self.node]
        for word in (f"service={self.service}", *(self.data if arm else ()), *words):
            command += ["--data", word] if not word.startswith("-") else [word]
        typer.echo(f"+ {' '.join(command[1:])}", err=True)
        environ = {**os.environ, **({"FLEET": self.fleet} if self.fleet else {})}
        return subprocess.run(
            command, cwd=PROJECT, env=environ, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False
        ).returncode

    def path(self, name: str) -> Path:
        return (self.folder / name).absolute()

    def read(self, name: str) -> Any:
        """A document of this A/B; None where that step was not done."""
        try:
            return json.loads(self.path(name).read_text())
        except FileNotFoundError:
            return None
        except ValueError:
            fail(f"{self.path(name)}: want JSON as it was written, found other text; remove it and do that step again")

    def write(self, name: str, document: Any) -> None:
        """Appears by rename: a step that was interrupted is not done."""
        new = self.path(f".{name}.new")
        new.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
        new.rename(self.path(name))


def fail(text: str) -> NoReturn:
    """Say why on stderr and leave with 1."""
    typer.echo(text, err=True)
    raise typer.Exit(1)


def _trial(service: str, node: str, folder: Path | None, fleet: str | None, data: list[str] | None) -> Trial:
    """The A/B in its folder. Exits 1 where the folder has another one."""
    trial = Trial(service, node, folder or Path("ab") / f"{service}-{node}", fleet, sorted(data or []))
    trial.folder.mkdir(parents=True, exist_ok=True)
    about = {"service": service, "node": node, "fleet": fleet, "data": trial.data}
    there = trial.read("about.json")
    if there is None:
        if not data:
            fail("want --data NAME=VALUE, what makes the arm, found none: both arms would be the same")
        trial.write("about.json", about)
    elif data and there != about:
        fail(f"{trial.folder}: want an A/B of {about}, found one of {there}; use another --folder, or remove that one")
    elif there is not None:
        trial.data = [str(word) for word in there["data"]]
        if (there["service"], there["node"]) != (service, node):
            fail(f"{trial.folder}: want an A/B of {service} on {node}, found {there['service']} on {there['node']}")
    return trial


def _row(trial: Trial, document: Any) -> dict[str, Any]:
    """This node's row of what verify.py found. Exits 1 where there is none."""
    for row in (document or {}).get("results") or []:
        if (row.get("node"), row.get("service")) == (trial.node, trial.service):
            return dict(row)
    fail(f"{trial.service} on {trial.node}: want what verify.py found, found nothing")


def _asked(trial: Trial, name: str, probes: str, trials: int | None, seconds: int | None) -> int:
    """Ask what runs now, and keep it under a name."""
    report = trial.path("asked.json")
    report.unlink(missing_ok=True)
    more = [f"trials={trials}"] if trials else []
    more += [f"seconds={seconds}"] if seconds else []
    code = trial.pyinfra(
        "verify.py", f"probes={probes}", f"report={report}", f"history={trial.folder.absolute()}", *more
    )
    document = trial.read("asked.json")
    if document is None:
        fail(f"{name}: verify.py ended with {code} and wrote nothing")
    trial.write(f"{name}.json", _row(trial, document))
    report.unlink()
    return code


def _preflight(trial: Trial) -> int:
    """Plans and gates of both arms; nothing is touched."""
    codes = {}
    for name, arm in (("control", False), ("arm", True)):
        code = trial.pyinfra("deploy.py", "--dry", f"report={trial.path(f'plan-{name}.json')}", arm=arm)
        codes[name] = code
    refused = [name for name, code in codes.items() if code]
    if refused:
        typer.echo(f"preflight: the gates refuse the {' and the '.join(refused)}; nothing was touched", err=True)
        return 1
    changes = trial.read("plan-control.json").get("changes") or []
    mine = [each for each in changes if (each["node"], each["service"]) == (trial.node, trial.service)]
    if any(each["kind"] != "none" for each in mine) or not mine:
        kinds = ", ".join(each["kind"] for each in mine) or "no such service"
        fail(f"preflight: want what is declared to run on {trial.node}, found: {kinds}; roll it out first")
    trial.write("preflight.json", {"passed": True})
    return 0


def _control(trial: Trial, probes: str, trials: int | None, seconds: int | None) -> int:
    code = _asked(trial, "control", probes, trials, seconds)
    if code == 1:
        trial.path("control.json").unlink()
        typer.echo("control: what runs now does not answer as it should; there is nothing to compare with", err=True)
    return 1 if code == 1 else 0


def _boot(trial: Trial) -> int:
    """Activate the arm, by a rollout of this one node: its gates, proof and undo hold."""
    control = trial.read("control.json")
    if control is None:
        fail("boot: want a control to compare with, found none; first: fleet ab control")
    report = trial.path("boot-report.json")
    report.unlink(missing_ok=True)
    trial.write("booting.json", {"control": control["release"]})
    code = trial.pyinfra("deploy.py", "-y", f"report={report}", arm=True)
    results = (trial.read("boot-report.json") or {}).get("results") or []
    row = next((each for each in results if (each["node"], each["service"]) == (trial.node, trial.service)), {})
    if code or row.get("status") not in ("proven", "unchanged"):
        trial.path("booting.json").unlink()
        typer.echo(f"boot: {row.get('status', 'refused')}: {row.get('proof', 'see above')}", err=True)
        return 1
    if row["release"] == control["release"]:
        trial.path("booting.json").unlink()
        fail("boot: want a release other than the control's, found the same: --data changes nothing")
    trial.write("booted.json", {"release": row["release"], "control": control["release"]})
    trial.path("booting.json").unlink()
    return 0


def _verify(trial: Trial, probes: str, trials: int | None, seconds: int | None) -> int:
    booted = trial.read("booted.json")
    if booted is None:
        fail("verify: want a booted arm, found none; first: fleet ab boot")
    _asked(trial, "arm", probes, trials, seconds)
    found = trial.read("arm.json")["release"]
    if found != booted["release"]:
        trial.path("arm.json").unlink()
        fail(f"verify: want the arm {booted['release']} on {trial.node}, found {found}; boot it again")
    return 0


def _verdict(trial: Trial, bounds: Any, as_json: bool) -> int:
    from fleet.proof.ab.verdict import verdict
    from operations.show import console, print_table
    from templates.ab import markdown, page

    control, arm = trial.read("control.json"), trial.read("arm.json")
    if control is None or arm is None:
        fail("verdict: want control and arm asked, found not both; first: fleet ab control, boot, verify")
    found = verdict(control, arm, bounds)
    document = {
        "service": trial.service,
        "node": trial.node,
        "data": trial.data,
        "control": control["release"],
        "arm": arm["release"],
        "bounds": bounds.model_dump(),
        "adopt": found.adopt,
        "decision": found.decision,
        "lines": [line.model_dump() for line in found.lines],
        "findings": list(found.findings),
    }
    trial.write("verdict.json", document)
    trial.path("verdict.md").write_text(markdown(document), encoding="utf-8")
    trial.path("verdict.html").write_text(page(document, control, arm), encoding="utf-8")
    names = ["figure", "control", "arm", "difference", "significance", "holds", "limit"]
    rows = [
        (line.name, line.control, line.arm, line.difference, line.significance, holds(line.holds), line.limit)
        for line in found.lines
    ]
    print_table(console(as_json), f"{trial.service} on {trial.node}: {' '.join(trial.data)}", names, rows)
    for finding in found.findings:
        typer.echo(f"finding: {finding}: want a prediction within 2 %", err=as_json)
    typer.echo(json.dumps(document, indent=1, ensure_ascii=False) if as_json else f"verdict: {found.decision}")
    return 0 if found.adopt else 2


def holds(value: bool | None) -> str:
    """A line's part in the decision, in a word."""
    return "-" if value is None else "yes" if value else "NO"


def _restore(trial: Trial) -> int:
    """The control back, where the arm runs or may run."""
    booted, booting = trial.read("booted.json"), trial.read("booting.json")
    if booted is None and booting is None:
        typer.echo("restore: the arm was not booted, so there is nothing to put back")
        return 0
    # What is declared is the control: a rollout without the arm's data brings it, and changes nothing where it runs.
    report = trial.path("restore-report.json")
    code = trial.pyinfra("deploy.py", "-y", f"report={report}")
    rows = (trial.read("restore-report.json") or {}).get("results") or []
    back = {row["release"] for row in rows if (row["node"], row["service"]) == (trial.node, trial.service)}
    wanted = (booted or booting)["control"]
    if code == 0 and back != {wanted}:
        fail(f"restore: want the control {wanted}, found {', '.join(back)}: what is declared was changed meanwhile")
    if code == 0:
        for name in ("booted.json", "booting.json", "arm.json"):
            trial.path(name).unlink(missing_ok=True)
    return code


def _leave(code: int) -> None:
    if code:
        raise typer.Exit(code)


def _bounds(pool: float | None, tpot: float, ttft: float | None, throughput: float | None) -> Any:
    from pydantic import ValidationError

    from fleet.proof.ab.verdict import Bounds

    try:
        return Bounds(pool_gain=pool, tpot_loss=tpot, ttft_loss=ttft, throughput_loss=throughput)
    except ValidationError as error:
        wrong = error.errors()[0]
        fail(f"--{str(wrong['loc'][0]).replace('_', '-')}: {wrong['msg']}, found {wrong['input']!r}")


@app.command()
def preflight(service: Service, node: Node, data: Data = None, folder: Folder = None, fleet: FleetName = None) -> None:
    """Plan and judge both arms. Touches nothing. Exit 1 where a gate refuses one."""
    _leave(_preflight(_trial(service, node, folder, fleet, data)))


@app.command()
def control(
    service: Service,
    node: Node,
    data: Data = None,
    folder: Folder = None,
    fleet: FleetName = None,
    probes: Probes = PROBES,
    trials: Trials = None,
    seconds: Seconds = None,
) -> None:
    """Ask what runs now: the baseline."""
    _leave(_control(_trial(service, node, folder, fleet, data), probes, trials, seconds))


@app.command()
def boot(service: Service, node: Node, data: Data = None, folder: Folder = None, fleet: FleetName = None) -> None:
    """Activate the arm on the node, by a rollout; where it does not prove itself, the control comes back."""
    _leave(_boot(_trial(service, node, folder, fleet, data)))


@app.command()
def verify(
    service: Service,
    node: Node,
    data: Data = None,
    folder: Folder = None,
    fleet: FleetName = None,
    probes: Probes = PROBES,
    trials: Trials = None,
    seconds: Seconds = None,
) -> None:
    """Ask the arm the same."""
    _leave(_verify(_trial(service, node, folder, fleet, data), probes, trials, seconds))


@app.command()
def verdict(
    service: Service,
    node: Node,
    data: Data = None,
    folder: Folder = None,
    fleet: FleetName = None,
    pool_gain: PoolGain = None,
    tpot_loss: TpotLoss = 10,
    ttft_loss: TtftLoss = None,
    throughput_loss: Throughput = None,
    as_json: Json = False,
) -> None:
    """One table of both arms and a decision; verdict.json, .md and .html. Exit 0: adopt, 2: go back."""
    trial = _trial(service, node, folder, fleet, data)
    _leave(_verdict(trial, _bounds(pool_gain, tpot_loss, ttft_loss, throughput_loss), as_json))


@app.command()
def restore(service: Service, node: Node, folder: Folder = None, fleet: FleetName = None) -> None:
    """Put the control back where the arm was booted."""
    _leave(_restore(_trial(service, node, folder, fleet, None)))


@app.command()
def run(
    service: Service,
    node: Node,
    data: Data = None,
    folder: Folder = None,
    fleet: FleetName = None,
    probes: Probes = PROBES,
    trials: Trials = None,
    seconds: Seconds = None,
    pool_gain: PoolGain = None,
    tpot_loss: TpotLoss = 10,
    ttft_loss: TtftLoss = None,
    throughput_loss: Throughput = None,
    as_json: Json = False,
) -> None:
    """Every step in order, without those that are done; on "go back" the control is put back. Exit 0, 1 or 2."""
    trial = _trial(service, node, folder, fleet, data)
    bounds = _bounds(pool_gain, tpot_loss, ttft_loss, throughput_loss)
    steps: list[tuple[str, Callable[[], int]]] = [
        ("preflight.json", lambda: _preflight(trial)),
        ("control.json", lambda: _control(trial, probes, trials, seconds)),
        ("booted.json", lambda: _boot(trial)),
        ("arm.json", lambda: _verify(trial, probes, trials, seconds)),
    ]
    for done, step in steps:
        if trial.read(done) is None:
            _leave(step())
    code = _verdict(trial, bounds, as_json)
    if code == 2 and _restore(trial):
        fail(f"go back: the control could NOT be put back; see above, then: fleet ab restore {service} {node}")
    if code == 0:
        typer.echo(
            f"adopted on {node}: declare {' '.join(trial.data)} for {service}, or the next rollout takes it back"
        )
    _leave(code)
