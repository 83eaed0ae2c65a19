"""What the sections of an audit say, from the shell's real output and from any nonsense."""

import base64
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.parse.engines import parse_engines
from facts.parse.frames import Section, parse_frames
from fleet.nodes.request import ProbeRequest
from fleet.nodes.running import Running
from tests.facts.fake_node import CURRENT, FakeNode

CID, IMAGE = "c" * 64, "1" * 64
DIGEST = "sha256:" + "ab" * 32
UNIT_CGROUP = f"/system.slice/vllm-glm.service/libpod-payload-{CID}"
EMPTY = Section(text="", code=0)


def section(*words: str) -> Section:
    """The section with these words; `end` comes by itself."""
    return Section(text=base64.b64encode("".join(f"{word}\0" for word in (*words, "end")).encode()).decode(), code=0)


def process(
    pid: int, kind: str, *argv: str, cgroup: str = UNIT_CGROUP, parent: int = 1, inner: str = "1"
) -> tuple[str, ...]:
    return ("process", str(pid), str(parent), inner, cgroup, kind, str(len(argv)), *argv)


ENGINE = process(50, "engine", "/usr/bin/python3", "/usr/local/bin/vllm", "serve", "/m", parent=40)
CLIENT = process(30, "client", "/usr/bin/podman", "run", "x", cgroup="/system.slice/vllm-glm.service")
MONITOR = process(
    40, "monitor", "/usr/bin/conmon", "-c", CID, cgroup="/system.slice/vllm-glm.service/runtime", inner=""
)
CONTAINER = ("container", CID, IMAGE, DIGEST, "known", "1", "PATH")
ABOUT = (
    *("names", "50", "2", "A", "TOKEN", "env", "50", "1", "A=b=c", "secret", "50", "TOKEN", "f" * 64),
    *("mount", "50", "/srv/x", "/opt/x", "other", "e" * 64),
)


def report(path: str, answer: str) -> str:
    return f"report glm {path}\n{base64.b64encode(answer.encode()).decode()}\nexit 0\n"


def test_an_engine_its_container_its_command_and_its_reports_are_put_together() -> None:
    said = report("/v1/models", 'HTTP/1.1 200 OK\r\nserver: x\r\n\r\n{"data": []}')
    said += report("/metrics", "HTTP/1.1 200 OK\nvllm:cache_config_info{} 1\n") + "report glm /version\n\nexit 1\n"
    told = parse_engines(section(*ENGINE, *CLIENT, *MONITOR, *CONTAINER, *ABOUT), Section(text=said, code=0))
    (engine,) = told.engines
    assert told.error is None and told.of("vllm-glm.service") is engine
    assert engine.argv == ("vllm", "serve", "/m") and engine.command == ("/usr/bin/podman", "run", "x")
    assert engine.image and (engine.image.digest, engine.image.env_names) == (DIGEST, ("PATH",))
    assert (engine.env, engine.env_names, engine.secrets) == ({"A": "b=c"}, ("A", "TOKEN"), {"TOKEN": "f" * 64})
    assert [(one.source, one.target, one.same) for one in engine.mounts] == [("/srv/x", "/opt/x", False)]
    assert engine.report("/v1/models").body == '{"data": []}' and engine.report("/version").status is None
    assert (engine.report("/metrics").status, engine.report("/metrics").body) == (200, "vllm:cache_config_info{} 1")


def test_workers_of_an_engine_are_no_engines_and_strangers_are() -> None:
    worker = process(51, "engine", "python3", "/usr/local/bin/vllm", "serve", "/m", parent=50)
    other = process(90, "engine", "vllm", "serve", "/mine", cgroup="/user.slice/session-1.scope")
    told = parse_engines(section(*ENGINE, *worker, *other), EMPTY)
    assert [(one.pid, one.unit) for one in told.engines] == [(50, "vllm-glm.service"), (90, "session-1.scope")]


def test_an_engine_of_docker_is_found_by_its_containers_name() -> None:
    cgroup = f"/system.slice/docker-{CID}.scope"
    words = process(50, "engine", "python3", "/usr/bin/vllm", "serve", "/m", cgroup=cgroup)
    told = parse_engines(section(*words, "docker", CID, "vllm-glm", f"vllm@{DIGEST}"), EMPTY)
    assert told.engines[0].unit == "vllm-glm.service" and told.engines[0].image
    assert told.engines[0].image.digest == DIGEST


@pytest.mark.parametrize(
    ("given_section", "words"),
    [
        (Section(text="", code=None), "did not end in time"),
        (Section(text="oh", code=1), "exit code 1"),
        (Section(text="not base64!", code=0), "want the processes"),
        (Section(text=base64.b64encode(b"process\0x\0").decode(), code=0), "want the processes"),
        (section("nonsense"), "want the processes"),
        (section("names", "7", "0"), "want the processes"),
    ],
)
def test_what_cannot_be_read_is_said_and_is_not_an_empty_node(given_section: Section, words: str) -> None:
    told = parse_engines(given_section, EMPTY)
    assert told.engines == () and words in (told.error or "")


WORDS = st.lists(
    st.sampled_from(
        ["process", "names", "env", "secret", "mount", "container", "docker", "end", "1", "2", "engine", "A=b", CID]
    )
    | st.text(max_size=4)
)


@given(WORDS, st.text(max_size=80))
def test_no_words_and_no_reports_break_it(words: list[str], reports: str) -> None:
    raw = "\0".join(words).encode("utf-8", errors="surrogatepass")
    told = parse_engines(Section(text=base64.b64encode(raw).decode(), code=0), Section(text=reports, code=0))
    assert isinstance(told, Running)
    assert told.error or "end" in words, "what is cut off is never taken for whole"


@given(st.binary(max_size=60))
def test_no_bytes_break_it(raw: bytes) -> None:
    assert isinstance(parse_engines(Section(text=raw.decode("latin-1"), code=0), EMPTY), Running)


@pytest.mark.skipif(shutil.which("bash") is None or sys.platform != "linux", reason="reads /proc with the probe's bash")
def test_the_probes_own_shell_finds_a_process_and_hides_what_may_be_secret(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    node.release("glm", CURRENT, env='SHOWN="ü 1"\n', secrets_env='TOKEN="hunter2"\n')
    node.mark("glm", current=CURRENT)
    program = tmp_path / "vllm"
    program.write_text("import time; time.sleep(60)")
    words = [
        sys.executable,
        "-S",
        str(program),
        "serve",
        "/m",
        "--api-key",
        "hunter2",
        "-e",
        "A=hunter2",
        "--x-token=hunter2",
    ]
    env = {"SHOWN": "ü 1", "TOKEN": "hunter2", "OTHER": "hunter2", "PATH": os.environ["PATH"]}
    engine = subprocess.Popen(words, env=env)
    try:
        answer, script = node.ask(ProbeRequest(secret_key="key", audit=True), "services", "engines")
    finally:
        engine.kill()
        engine.wait()
    raw = parse_frames(answer, script.nonce)["engines"]
    assert "hunter2" not in base64.b64decode(raw.text.strip()).decode()
    (found,) = [one for one in parse_engines(raw, EMPTY).engines if one.pid == engine.pid]
    assert found.argv[:3] == ("vllm", "serve", "/m") and found.argv.count("***") == 1
    assert "A=***" in found.argv and "--x-token=***" in found.argv
    assert {"SHOWN", "TOKEN", "OTHER"} <= set(found.env_names) and found.env == {}, "of no unit of ours"
