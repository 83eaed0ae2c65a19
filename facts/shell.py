"""One command on one node, through pyinfra's connection, with its payload on stdin.

Words are quoted here and nowhere else. What is secret goes by stdin: others can read the argv of a shell.
"""

import re
import shlex
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import gevent
from pyinfra.api.command import StringCommand

from facts.connection import broken, mend
from fleet.frozen import Frozen

if TYPE_CHECKING:
    from pyinfra.api.host import Host

READ_WHOLE = """exec bash -c 'IFS= read -r -N 1000000000 text; eval "$text"'"""
"""A command that runs the script on its stdin. `bash -s` reads what comes over a network byte by byte, a system call
for each; `cat` would be a process more."""
_RESULT = re.compile(r"[^\]]*\](?:\x1b\[[0-9;]*m)* [a-z_]+=")
"""`[a1] seconds=3`: a result of the node script, which our code reads and an operator need not."""


def without_results(echo: Callable[..., None]) -> Callable[..., None]:
    """pyinfra's way to print, without the lines that are results.

    It prints while it reads a node's answer: where nobody looks on any more (a closed terminal), the rest is read too.
    """

    def quiet(message: Any = None, **how: Any) -> None:
        if not (isinstance(message, str) and _RESULT.match(message)):
            with suppress(OSError):
                echo(message, **how)

    return quiet


class Output(Frozen):
    """What a command said. `reason` is set where it did not run to its end with exit 0."""

    stdout: str = ""
    stderr: str = ""
    reason: str | None = None

    def tail(self, lines: int = 5) -> str:
        """The last lines of stderr for an error message, or nothing."""
        last = [line for line in self.stderr.splitlines() if line.strip()][-lines:]
        return f" ({' | '.join(last)})" if last else ""

    def value(self, name: str) -> str | None:
        """The value of the last `name=value` line of stdout."""
        found = [line.partition("=")[2] for line in self.stdout.splitlines() if line.startswith(f"{name}=")]
        return found[-1] if found else None


def _command(words: tuple[str, ...]) -> str:
    """The words for a shell, which becomes the program instead of waiting for it; a builtin has no path."""
    return f"exec {shlex.join(words)}" if words[0].startswith("/") else shlex.join(words)


def run(
    host: "Host", words: tuple[str, ...] | str, stdin: str | None = None, timeout_s: float = 60, show: bool = False
) -> Output:
    """Run words on the host as root and wait at most `timeout_s` seconds. Never raises for what the node did.

    A text instead of words is a shell command as it is, for a fixed one without any value in it.

    `show` prints the output line by line as it arrives, with the host's name in front.
    """
    arguments: dict[str, Any] = {"_timeout": int(timeout_s)}
    if host.data.get("ssh_user", "root") != "root":
        arguments["_sudo"] = True
    else:
        arguments["_shell_executable"] = None  # the login shell has read the words already
    if stdin is not None:
        arguments["_stdin"] = stdin
    text = words if isinstance(words, str) else _command(words)
    try:
        mend(host)
        with gevent.Timeout(timeout_s + 5, TimeoutError(f"no answer within {timeout_s:g} s")):
            good, lines = host.run_shell_command(StringCommand(text), print_output=show, print_input=False, **arguments)
    except Exception as error:  # paramiko, socket, gevent: all mean that the node did not answer
        return Output(reason=f"{type(error).__name__}: {error}".rstrip(": "))
    output = Output(stdout="\n".join(lines.stdout_lines), stderr="\n".join(lines.stderr_lines))
    if good:
        return output
    if broken(host) and output.value("error") is None:
        return output.model_copy(update={"reason": "the SSH connection ended before the command did"})
    last = [line for line in (*lines.stdout_lines, *lines.stderr_lines) if line.strip()][-3:]
    return output.model_copy(update={"reason": output.value("error") or " | ".join(last) or "failed without a word"})
