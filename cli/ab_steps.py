"""The steps of an A/B, each through deploy.py or verify.py, with their gates, locks, proof and undo."""

from typing import Any

import typer

from cli.ab_trial import Outcome, Trial
from cli.machine import fail


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


def preflight(trial: Trial) -> Outcome:
    """Plans and gates of both arms; nothing is touched."""
    codes, files = {}, ("plan-control.json", "plan-arm.json")
    for name, arm in (("control", False), ("arm", True)):
        code = trial.pyinfra("deploy.py", "--dry", f"report={trial.path(f'plan-{name}.json')}", arm=arm)
        codes[name] = code
    refused = [name for name, code in codes.items() if code]
    if refused:
        said = f"preflight: the gates refuse the {' and the '.join(refused)}; nothing was touched"
        return Outcome(1, said, files)
    changes = trial.read("plan-control.json").get("changes") or []
    mine = [each for each in changes if (each["node"], each["service"]) == (trial.node, trial.service)]
    if any(each["kind"] != "none" for each in mine) or not mine:
        kinds = ", ".join(each["kind"] for each in mine) or "no such service"
        fail(f"preflight: want what is declared to run on {trial.node}, found: {kinds}; roll it out first")
    trial.write("preflight.json", {"passed": True})
    return Outcome(files=("preflight.json", *files))


def control(trial: Trial, probes: str, trials: int | None, seconds: int | None) -> Outcome:
    code = _asked(trial, "control", probes, trials, seconds)
    if code == 1:
        trial.path("control.json").unlink()
        return Outcome(1, "control: what runs now does not answer as it should; there is nothing to compare with")
    return Outcome(files=("control.json",))


def boot(trial: Trial) -> Outcome:
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
        said = f"boot: {row.get('status', 'refused')}: {row.get('proof', 'see above')}"
        return Outcome(1, said, (report.name,) if report.exists() else ())
    if row["release"] == control["release"]:
        trial.path("booting.json").unlink()
        fail("boot: want a release other than the control's, found the same: --data changes nothing")
    trial.write("booted.json", {"release": row["release"], "control": control["release"]})
    trial.path("booting.json").unlink()
    return Outcome(files=("booted.json", report.name))


def verify(trial: Trial, probes: str, trials: int | None, seconds: int | None) -> Outcome:
    booted = trial.read("booted.json")
    if booted is None:
        fail("verify: want a booted arm, found none; first: fleet ab boot")
    _asked(trial, "arm", probes, trials, seconds)
    found = trial.read("arm.json")["release"]
    if found != booted["release"]:
        trial.path("arm.json").unlink()
        fail(f"verify: want the arm {booted['release']} on {trial.node}, found {found}; boot it again")
    return Outcome(files=("arm.json",))


def verdict(trial: Trial, bounds: Any, as_json: bool) -> Outcome:
    from fleet.proof.ab.verdict import verdict
    from operations.show import console, print_table
    from templates.ab import markdown, page

    control, arm = trial.read("control.json"), trial.read("arm.json")
    if control is None or arm is None:
        fail("verdict: want control and arm asked, found not both; first: fleet ab control, boot, verify")
    about = {
        "service": trial.service,
        "node": trial.node,
        "data": trial.data,
        "control": control["release"],
        "arm": arm["release"],
        "bounds": bounds.model_dump(),
    }
    try:
        found = verdict(control, arm, bounds)
        document = {
            **about,
            "adopt": found.adopt,
            "decision": found.decision,
            "lines": [line.model_dump() for line in found.lines],
            "findings": list(found.findings),
        }
        report = page(document, control, arm)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        fail(
            f"verdict: want control.json and arm.json of {trial.folder} as verify.py found them, found others "
            f"({type(error).__name__}: {error}); remove both and ask again"
        )
    trial.write("verdict.json", document)
    trial.path("verdict.md").write_text(markdown(document), encoding="utf-8")
    trial.path("verdict.html").write_text(report, encoding="utf-8")
    names = ["figure", "control", "arm", "difference", "significance", "holds", "limit"]
    rows = [
        (line.name, line.control, line.arm, line.difference, line.significance, holds(line.holds), line.limit)
        for line in found.lines
    ]
    print_table(console(as_json), f"{trial.service} on {trial.node}: {' '.join(trial.data)}", names, rows)
    for finding in found.findings:
        typer.echo(f"finding: {finding}: want a prediction within 2 %", err=as_json)
    typer.echo(f"verdict: {found.decision}", err=as_json)
    return Outcome(0 if found.adopt else 2, verdict=document)


def holds(value: bool | None) -> str:
    """A line's part in the decision, in a word."""
    return "-" if value is None else "yes" if value else "NO"


def restore(trial: Trial) -> Outcome:
    """The control back, where the arm runs or may run."""
    booted, booting = trial.read("booted.json"), trial.read("booting.json")
    if booted is None and booting is None:
        return Outcome(said="restore: the arm was not booted, so there is nothing to put back")
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
    said = f"restore: deploy.py ended with {code}: see above" if code else None
    return Outcome(code, said, (report.name,) if report.exists() else ())
