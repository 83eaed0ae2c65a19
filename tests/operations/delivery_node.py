"""The node's part of a delivery, run on this machine."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from operations.delivery.call import Value, script


class Node:
    """The node's part of a delivery, run here on folders of the test."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.state.mkdir()
        self.common = {"run_id": "r1", "lease_s": "60", "holder": "me", "hashers": "1", "secret": "", "serving": ""}

    def start(self, verb: str, **values: Value) -> "subprocess.Popen[str]":
        given: Mapping[str, Value] = {"stagings": [], **self.common, **values}
        started = subprocess.Popen(["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert started.stdin is not None
        started.stdin.write(script(verb, given, str(self.state)))
        started.stdin.close()
        started.stdin = None
        return started

    def run(self, verb: str, **values: Value) -> list[str]:
        out, _ = self.start(verb, **values).communicate(timeout=30)
        return out.splitlines()
