"""`make demo`: boot a lab, roll out on it, ask every node something, and show what came of it.

Where the lab cannot run (not root, not Linux) the same plan, gates and difference run on recorded nodes.
"""

import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from cli import session  # first: it patches sockets for pyinfra's connections
from declare.invocation import Invocation, for_command
from lab import host
from lab.lab import Lab
from operations.run import stored_proof
from operations.show import result_table
from operations.steps import API_KEY
from operations.survey import Survey
from probes.ask import ask
from probes.evidence import Endpoint, Limits
from probes.exchange import ExchangeError

PROJECT = Path(__file__).resolve().parent.parent
out = Console(highlight=False)
QUESTION = "What is 17 + 25?"

NEXT = """
[bold]Try next[/] (from this folder)
  .venv/bin/fleet status
  .venv/bin/pyinfra inventory.py deploy.py --dry --diff --limit h1 --data max_model_len=65536
  .venv/bin/pyinfra inventory.py deploy.py -y --limit h1 --data max_model_len=65536
  .venv/bin/pyinfra inventory.py rollback.py -y --limit h1
  .venv/bin/fleet cmd glm a1
  .venv/bin/fleet lab set a1 --fault gpu-lost:3    then look at the gates: deploy.py --dry
  .venv/bin/fleet lab down                         or make clean, which leaves no trace
"""


def pyinfra(*words: str, **env: str) -> int:
    """Run pyinfra as a user would, and show how it is called."""
    command = [str(Path(sys.executable).parent / "pyinfra"), "inventory.py", *words]
    shown = " ".join([*(f"{name}={value}" for name, value in env.items()), "pyinfra", *command[1:]])
    out.print(f"\n[bold]$ {shown}[/]")
    return subprocess.run(command, cwd=PROJECT, env={**os.environ, **env}, stdin=subprocess.DEVNULL).returncode


def offline(reason: str) -> int:
    """The same decisions on recorded nodes."""
    out.print(f"No lab here ({reason}).")
    out.print("Plan, gates and difference of three recorded nodes follow. Nothing is started, nothing is contacted.")
    code = pyinfra("deploy.py", "--dry", "--diff", FLEET="recorded")
    out.print(
        "\n[bold]Nothing was started[/]: this was the plan of recorded nodes. As root on Linux, make demo boots a lab."
    )
    return code


def _rows(found: Survey, invocation: Invocation, secrets: session.Secrets) -> list[dict[str, str]]:
    """One row a service: what lies there, and what it answers now."""
    rows = []
    for plan in found.plans:
        lies = plan.installed
        key = secrets.of(f"{plan.node.name}/{plan.service.name}").get(API_KEY)
        url = f"http://{plan.node.address}:{plan.service.port}"
        endpoint = Endpoint(url=url, model=plan.service.served_name, api_key=key)
        try:
            said = str(ask(endpoint, QUESTION, Limits(total_s=30)))
        except ExchangeError as error:
            said = f"NO ANSWER: {error}"
        rows.append(
            {
                "node": plan.node.name,
                "service": plan.service.name,
                "layout": str(plan.layout),
                "partition": plan.layout.partition_text if plan.layout else "-",
                "release": (lies.current if lies else None) or "-",
                "endpoint": url,
                "proof": stored_proof(lies.proof) if lies and lies.proof else "-",
                f"asked now: {QUESTION}": said,
            }
        )
    return rows


def show() -> int:
    """Ask each node for a completion and print the table. 1 where one does not answer."""
    invocation = for_command(None)
    with session.connected(invocation, [p.node.name for p in invocation.fleet.placements]) as connected:
        found = connected.survey()
        rows = _rows(found, invocation, connected.secret)
    out.print()
    out.print(result_table(rows, "What serves now"))
    return int(any(value.startswith("NO ANSWER") for row in rows for value in row.values()))


def main() -> int:
    """The whole demo; its exit code."""
    try:
        host.require_fit()
    except host.LabError as error:
        return offline(str(error))
    out.print("[bold]Lab[/]: three systemd hosts with sshd; their nvidia-smi replays recorded nodes.")
    out.print("The engine is a stand-in that takes vLLM's argv and speaks its HTTP interface; it is not vLLM.")
    with out.status("starting the lab (the first time installs its root file system, about a minute)") as spinner:
        report = Lab(progress=spinner.update).up()
    out.print(
        f"lab: booted {', '.join(report.started)}" if report.started else "lab: runs already, nothing was changed"
    )
    code = pyinfra("deploy.py", "-y")
    if code == 0:
        code = show()
    out.print(NEXT if code == 0 else "\n[bold red]The demo did not end as it should; see above.[/]")
    return code


if __name__ == "__main__":
    sys.exit(main())
