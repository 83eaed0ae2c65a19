"""`fleet degenerate FILE.jsonl`: which answers are degenerate, one line of JSON an answer."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.machine import fail, json_option
from fleet.proof.degeneration import judge

WANT = '{"text": "...", "finish_reason": "stop", "max_tokens": 1024}'


def degenerate(
    file: Annotated[str, typer.Argument(metavar="FILE", help=f"One answer a line: {WANT}; - reads standard input.")],
    gate: Annotated[bool, typer.Option("--gate", help="Exit 2 where an answer is degenerate.")] = False,
    as_json: Annotated[bool, json_option("The lines are JSON in any case.")] = False,
) -> None:
    """Print {"degenerate": true or false, "why": ...} for each answer; exit 1 where a line is none."""
    try:
        lines = (sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()).split(b"\n")
    except OSError as error:
        fail(f"{file}: want a file with one answer a line, found {error.strerror}")
    wrong, bad, asked = 0, 0, 0
    for number, found in _answers(lines):
        asked += 1
        if isinstance(found, str):
            wrong += 1
            typer.echo(f"{file}:{number}: {found}", err=True)
            typer.echo(json.dumps({"degenerate": None, "why": f"line {number}: {found}"}, ensure_ascii=False))
            continue
        judgement = judge(found["text"], found.get("finish_reason"), found.get("max_tokens"))
        bad += judgement.degenerate
        typer.echo(judgement.model_dump_json())
    if not asked:
        fail(f"{file}: want at least one answer, found none")
    if wrong:
        raise typer.Exit(1)
    if bad and gate:
        raise typer.Exit(2)


def _answers(lines: list[bytes]) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """The number of each line that is not blank, and its answer or what is wrong with it."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield number, _answer(line)


def _answer(line: bytes) -> dict[str, Any] | str:
    try:
        answer = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return f"want JSON such as {WANT}, found {line[:60].decode('utf-8', 'replace')!r} ({error})"
    if not isinstance(answer, dict):
        return f"want an object such as {WANT}, found {type(answer).__name__}"
    if not isinstance(answer.get("text"), str):
        return f"text: want a string, found {answer.get('text')!r:.60}"
    if not isinstance(answer.get("finish_reason"), str | None):
        return f"finish_reason: want a string or null, found {answer['finish_reason']!r:.60}"
    limit = answer.get("max_tokens")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        return f"max_tokens: want a whole number of at least 1 or null, found {limit!r:.60}"
    return answer
