"""A real headless Chromium, driven over its own pipe (Chrome DevTools Protocol): no driver, no network."""

import base64
import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def program() -> str:
    """Chromium, installed by apt where this is root on CI; else skipped, and failed on CI, with the reason."""
    found = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if found is None and os.environ.get("CI") == "true" and os.geteuid() == 0 and shutil.which("apt-get"):
        for words in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
            subprocess.run(["apt-get", *words], check=False, capture_output=True)
        found = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if found is None:
        reason = "no chromium on this machine; as root: apt-get install --no-install-recommends chromium"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    return found


class Browser:
    """One page. `problems`: what its console, its scripts and its security policy complained of."""

    def __init__(self, profile: Path) -> None:
        self._ids = itertools.count(1)
        self.problems: list[str] = []
        self.requested: list[str] = []
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        words = [program(), "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        words += [f"--user-data-dir={profile}", "--no-first-run", "--disable-extensions", "about:blank"]

        def three_and_four() -> None:
            # Where these numbers are taken by the other end, dup2 in the wrong order would close it.
            reads, writes = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        self._process = subprocess.Popen(
            words,
            preexec_fn=three_and_four,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._rest = b""
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait(20)
        for end in (self._out, self._in):
            os.close(end)

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._in, 1 << 20)
            assert part, "chromium ended"
            self._rest += part
        text, self._rest = self._rest.split(b"\0", 1)
        told: dict[str, Any] = json.loads(text)
        self._note(told)
        return told

    def _note(self, told: dict[str, Any]) -> None:
        method, params = told.get("method"), told.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"])[:400])
        elif method == "Log.entryAdded":
            self.problems.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.problems.append(json.dumps(params["args"])[:400])
        elif method == "Network.requestWillBeSent":
            self.requested.append(params["request"]["url"])

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command, and its answer."""
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (told := self._message()).get("id") != number:
            pass
        assert "error" not in told, told
        answer: dict[str, Any] = told["result"]
        return answer

    def open(self, path: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Load a file, as a screen of this size shows it."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.as_uri())
        while self._message().get("method") != "Page.loadEventFired":
            pass

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str, text: str = "") -> None:
        """One key."""
        codes = {"Tab": 9, "Enter": 13, " ": 32}
        event = {"key": key, "code": key, "windowsVirtualKeyCode": codes.get(key, 0)}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def picture(self, path: Path) -> None:
        """The whole page as PNG."""
        taken = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(taken["data"]))
