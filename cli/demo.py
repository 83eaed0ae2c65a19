"""`make demo`: boot a lab, roll out on it, ask every node something, and show what came of it.

Where the lab cannot run (not root, not Linux) the same plan, gates and difference run on recorded nodes.
"""

import datetime
import os
import shlex
import subprocess
import sys
from pathlib import Path

from cli import session  # first: it patches sockets for pyinfra's connections
from cli.lab import progress
from declare.invocation import for_command
from fleet.plan import Plan
from lab import host
from lab.lab import Lab
from operations.prepare import api_key
from operations.proof import proven_at, stored_proof
from operations.show import console, print_table
from operations.survey import Secrets
from probes.asking.ask import ask
from probes.asking.exchange import ExchangeError
from probes.evidence import Endpoint, Limits

PROJECT = Path(__file__).resolve().parent.parent
FLEET = "lab"
"""Always: a FLEET of the caller's shell may be one that serves people."""
QUESTION = "What is 17 + 25?"
NEXT = (
    ("what runs where", ".venv/bin/fleet status"),
    ("the exact command and environment of a service", ".venv/bin/fleet cmd glm a1"),
    (
        "what a change would do, then do it, then take it back",
        ".venv/bin/pyinfra inventory.py deploy.py --dry --diff --limit h1 --data max_model_len=65536",
        ".venv/bin/pyinfra inventory.py deploy.py -y --limit h1 --data max_model_len=65536",
        ".venv/bin/pyinfra inventory.py rollback.py -y --limit h1",
    ),
    (
        "a lost GPU, and how it is refused",
        ".venv/bin/fleet lab set a1 --fault gpu-lost:3",
        ".venv/bin/pyinfra inventory.py deploy.py --dry",
        ".venv/bin/fleet lab set a1 --clear",
    ),
    ("the end, without a trace", "make clean"),
)
COLUMNS = ("node", "service", "layout", "partition", "release", "endpoint", "proof")
out = console()


def pyinfra(fleet: str, *words: str) -> int:
    """Run pyinfra as a user would, and show how it is called."""
    command = [str(Path(sys.executable).parent / "pyinfra"), "inventory.py", *words]
    named = "" if fleet == FLEET else f"FLEET={fleet} "
    out.print(f"\n[bold]$ {named}.venv/bin/pyinfra {shlex.join(command[1:])}[/]")
    environment = {**os.environ, "FLEET": fleet}
    return subprocess.run(command, cwd=PROJECT, env=environment, stdin=subprocess.DEVNULL).returncode


def offline(reason: str) -> int:
    """The same decisions on recorded nodes."""
    out.print(f"No lab here: {reason}.")
    out.print("Plan, gates and difference of three recorded nodes follow. Nothing is started, nothing is contacted.")
    code = pyinfra("recorded", "deploy.py", "--dry", "--diff")
    out.print("\n[bold]Nothing was started[/], nothing was contacted: this was the plan of three recorded nodes.")
    out.print("As root on Linux, make demo boots a lab of three systemd hosts and rolls out on it.")
    return code


def boot() -> bool:
    """Boot the lab; True where it ran already."""
    out.print("[bold]Lab[/]: three systemd hosts with sshd; their nvidia-smi replays recorded nodes.")
    out.print("The engine is a stand-in that takes vLLM's argv and speaks its HTTP interface; it is not vLLM.")
    with out.status("starting the lab (the first time installs its root file system, about a minute)") as spinner:
        report = Lab(progress=progress(spinner.update)).up()
    out.print(f"lab: booted {', '.join(report.started)}" if report.started else "lab: runs already")
    return not report.started


def _question(plan: Plan, secret: Secrets) -> str:
    """What the service answers now, or why it does not."""
    endpoint = Endpoint(url=_url(plan), model=plan.service.served_name, api_key=api_key(plan, secret) or None)
    try:
        return str(ask(endpoint, QUESTION, Limits(total_s=30)))
    except ExchangeError as error:
        return f"NO ANSWER: {error}"


def _url(plan: Plan) -> str:
    return f"http://{plan.node.address}:{plan.service.port}"


def _row(plan: Plan) -> tuple[str, ...]:
    layout, lies = plan.layout, plan.installed
    return (
        plan.node.name,
        plan.service.name,
        str(layout),
        layout.partition_text if layout else "-",
        (lies.current if lies else None) or "-",
        _url(plan),
        stored_proof(lies.proof) if lies and lies.proof else "-",
    )


def show(began: datetime.datetime, booted: bool) -> int:
    """Ask each service something and print what serves. 1 where one does not answer."""
    invocation = for_command(FLEET)
    with session.connected(invocation, list(invocation.nodes)) as connected:
        plans = connected.survey().plans
    out.print(f"\n[bold]A chat completion of each[/]: {QUESTION}")
    answers = [_question(plan, connected.secret) for plan in plans]
    for plan, answer in zip(plans, answers, strict=True):
        out.print(f"  {plan.node.name}/{plan.service.name}: {answer}", markup=False)
    out.print()
    print_table(out, "What serves now", COLUMNS, [_row(plan) for plan in plans])
    proofs = [proven_at(plan.installed.proof) for plan in plans if plan.installed and plan.installed.proof]
    if not booted and all(when is not None and when < began for when in proofs):
        out.print("\n[green]Nothing was changed[/]: the lab ran already, and every service is as declared.")
    return int(any(answer.startswith("NO ANSWER") for answer in answers))


def _print_next() -> None:
    out.print("\n[bold]Try next[/], in this folder:")
    for what, *commands in NEXT:
        out.print(f"  [dim]# {what}[/]")
        for command in commands:
            out.print(f"  {command}", markup=False, soft_wrap=True)
    if os.environ.get("FLEET", FLEET) != FLEET:
        out.print(f"\n[yellow]FLEET is {os.environ['FLEET']} in this shell[/]: unset it first, or these act on it.")


def main() -> int:
    """The whole demo; its exit code."""
    reason = host.unfit()
    if reason:
        return offline(reason)
    began = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    try:
        ran_already = boot()
    except host.LabError as error:
        out.print(f"[bold red]no lab[/]: {error}", soft_wrap=True)
        return 1
    code = pyinfra(FLEET, "deploy.py", "-y") or show(began, booted=not ran_already)
    if code:
        out.print("\n[bold red]The demo did not end as it should; see above.[/]")
    else:
        _print_next()
    return code


if __name__ == "__main__":
    sys.exit(main())
