"""The page docs/gates.md, made from the catalogue."""

from fleet.gate import Gate, Subject, catalogue

_TITLES: dict[Subject, str] = {
    "node": "Gates of a node",
    "service": "Gates of a service on a node",
    "fleet": "Gates of the fleet",
}
_SEVERITY = {"fail": "fails", "warn": "warns", "fail or warn": "fails or warns"}
_HEAD = """# Gates

Every gate of every node is asked before the first change, under `--dry` too. It says pass, warn, fail or waived. This
page is made from the code by `make docs`; each gate is one function in `fleet/gates/`.

A gate that lacks a fact, meets an output it does not understand, or has a mistake in it fails. A waiver in
`group_data/` names the gate and a reason, and is printed every time; a waiver of a gate that does not exist fails as
`waiver`, one that matches nothing warns. A node that does not answer fails as `facts`, which nothing waives. Gates
marked * need the facts of the node: a preview without contact leaves them out and says so as `contact`. Those marked **
need a deep look, which `pyinfra inventory.py gates.py` takes and a rollout does not; a rollout names them as not asked.

`fails` means that a finding stops the rollout (of the host, or of all, by `rollout.on_failed_gate`), `warns` that it is
shown. What a gate cannot read is a failure in both cases.
"""
_REACHABLE = "bring the node back, leave it out with --limit, or set rollout.on_unreachable: host"
_OTHERS = (
    (
        "reachable",
        "fails",
        "the SSH connection, the probe's answer",
        "The node answers over SSH, and what it answers to the probe is whole.",
        _REACHABLE,
    ),
    ("facts", "fails", "the probe's answer", "The node told its facts. Nothing waives it.", _REACHABLE),
    (
        "contact",
        "warns",
        "the command",
        "The nodes were asked: a preview without contact names what it leaves out.",
        "run `pyinfra inventory.py gates.py`",
    ),
    (
        "waiver",
        "fails or warns",
        "`waivers` of group_data",
        "Each waiver names a gate that there is, and something needs it.",
        "correct or remove the waiver",
    ),
)
"""What is said beside the gates: without a function of its own, since nothing is known where it fails."""
_TABLE = "| gate | severity | reads | passes when | remedy |\n| --- | --- | --- | --- | --- |"


def markdown() -> str:
    """The page docs/gates.md."""
    parts = [_HEAD]
    for subject, title in _TITLES.items():
        rows = [
            f"| `{one.name}`{_mark(one)} | {_SEVERITY[one.severity]} | {_cell(one.reads)} | {_cell(one.summary)} "
            f"| {_cell(one.remedy)} |"
            for one in catalogue()
            if one.subject == subject
        ]
        parts.append("\n".join([f"## {title}", "", _TABLE, *rows, ""]))
    others = [f"| `{name}` | {' | '.join(cells)} |" for name, *cells in _OTHERS]
    return "\n".join([*parts, "## Around the gates", "", _TABLE, *others, ""])


def _mark(one: Gate) -> str:
    return "**" if one.deep else "*" if one.needs_facts else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("{node}", "NODE").replace("{service}", "SERVICE")
