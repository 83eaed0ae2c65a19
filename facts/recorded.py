"""A pyinfra connector that answers the probe from a recorded file: a fleet is planned, gated and compared offline.

`@recorded/NODE` hosts come from `recording:` in NODE.yaml. Nothing is ever contacted; a command that was not recorded
fails, so that nothing can seem to have been done.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pyinfra import logger
from pyinfra.api import inventory as pyinfra_inventory
from pyinfra.api.command import StringCommand
from pyinfra.api.exceptions import ConnectError, InventoryError
from pyinfra.connectors.base import BaseConnector
from pyinfra.connectors.util import CommandOutput, OutputLine

from facts.parse.frames import ProbeError, with_nonce

# For every recorded host pyinfra looks through all installed packages anew, which takes longer than all else.
pyinfra_inventory.get_all_connectors = cache(pyinfra_inventory.get_all_connectors)

_NONCE = re.compile(r"(?:^|')nonce=([0-9a-f]{16})$", re.MULTILINE)
"""The first line of a probe's script: on stdin, or quoted in the argv of a fact of its own."""


class RecordedConnector(BaseConnector):
    """Answers from the file that the host's data name `recording`."""

    handles_execution = True
    text: str = ""

    @staticmethod
    def make_names_data(name: str | None = None) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
        """The node under its own name: `--limit a1` means the same here as on the living fleet."""
        if not name:
            raise InventoryError("recorded: want @recorded/NODE, found no node")
        yield name, {}, ["@recorded"]

    def connect(self) -> None:
        """Read the file. ConnectError where it cannot be read."""
        path = Path(str(self.host.data.recording))
        try:
            self.text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ConnectError(f"recording of {self.host.name}: want a readable file, found {error}") from error

    def run_shell_command(
        self, command: StringCommand, print_output: bool = False, print_input: bool = False, **arguments: Any
    ) -> tuple[bool, CommandOutput]:
        """The recorded probe under this run's nonce, or a failure that names what was not recorded."""
        asked = f"{command}\n{arguments.get('_stdin') or ''}"
        nonce = _NONCE.search(asked)
        if nonce is None:
            text = f"not recorded: {str(command)[:120]}; a recorded node can be planned, not changed"
            logger.error(f"    [{self.host.name}] {text}")
            return _failed(text)
        try:
            text = with_nonce(self.text, nonce[1])
        except ProbeError as error:
            return _failed(str(error))
        return True, CommandOutput([OutputLine("stdout", text)])

    def put_file(self, *args: Any, **kwargs: Any) -> bool:
        """Never: a recorded node cannot be changed."""
        return False

    def get_file(self, *args: Any, **kwargs: Any) -> bool:
        """Never: only the probe was recorded."""
        return False


def _failed(text: str) -> tuple[bool, CommandOutput]:
    return False, CommandOutput([OutputLine("stderr", text)])
