"""A whole answer of a lab host, read; then the same answer damaged in every way we could think of."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.parse.probe import ProbeError, parse_probe
from facts.script import ProbeScript
from fleet.nodes.node import NodeFacts
from fleet.nodes.request import ProbeRequest, ServiceRequest

ANSWER = (Path(__file__).parent / "answers" / "a1.txt").read_text()
NONCE = "0123456789abcdef"
DIGEST = "sha256:dce73748c23814fa9809039a8c69b6d4fbeb09820e2b643bd949f756d2475652"
IMAGE = f"localhost/vllm-standin@{DIGEST}"
ASKED = ServiceRequest(name="chat", model="/srv/models/glm-dsa-78", image=IMAGE, port=8000)
SCRIPT = ProbeScript(text="", nonce=NONCE, request=ProbeRequest(services=(ASKED,), secret_key="key"))
SECTIONS = re.findall(rf"^=={NONCE} ([a-z]+) begin$", ANSWER, re.MULTILINE)


def with_section(name: str, text: str, code: int = 0) -> str:
    """The answer with another text in one section."""
    whole = rf"(=={NONCE} {name} begin\n).*?\n=={NONCE} {name} end rc=\d+\n"
    return re.sub(whole, lambda match: f"{match[1]}{text}\n=={NONCE} {name} end rc={code}\n", ANSWER, flags=re.DOTALL)


def test_a_whole_answer_tells_everything_of_a_node() -> None:
    facts = parse_probe(ANSWER, SCRIPT)
    assert (facts.hostname, facts.os, facts.cpus_online) == ("a1", "Debian GNU/Linux 13 (trixie)", "0-1")
    assert facts.nvidia.error is None and len(facts.nvidia.gpus) == 8
    assert facts.topology and facts.topology.islands == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert facts.topology.numa == (0, 0, 0, 0, 1, 1, 1, 1)
    assert facts.runtime.error is None
    assert (facts.runtime.images[0].reference, facts.runtime.images[0].engine) == (IMAGE, "0.30.0")
    assert [(port.port, port.unit) for port in facts.ports] == [(22, "ssh.service"), (8000, "vllm-chat.service")]
    assert all(disk.free_bytes for disk in facts.disks)
    assert facts.models[0].config and facts.models[0].config["num_hidden_layers"] == 78
    assert facts.lock and (facts.lock.holder, facts.lock.expires) == ("ops@desk", 1796014900)
    assert facts.node_script_sha256 and [file.mode for file in facts.support_files] == ["644"]
    chat = facts.installed("chat")
    assert chat and chat.error is None and chat.current == chat.proven == NONCE
    assert chat.unit and chat.unit.active == "active" and set(chat.secrets) == {"API_KEY", "TOKEN"}


def told_unknown(facts: NodeFacts, section: str) -> bool:
    """Does the part of this section say that it is unknown?"""
    return {
        "gpus": facts.nvidia.error is not None,
        "topology": facts.topology is None and facts.topology_error is not None,
        "kernel": facts.kernel_log.error is not None,
        "system": facts.machine.error is not None,
        "cdi": facts.cdi.error is not None,
        "mounts": facts.sources == {} and facts.sources_error is not None,
        "numa": facts.numa == () and facts.numa_error is not None,
        "runtime": facts.runtime.error is not None,
        "services": facts.services_error is not None,
        "files": facts.services_error is not None and facts.node_script_sha256 is None,
        "units": facts.services_error is not None,
        "secrets": facts.services_error is not None,
        "ports": facts.ports_error is not None,
        "disks": all(disk.free_bytes is None and disk.error for disk in facts.disks),
        "models": all(model.config is None and model.error for model in facts.models),
    }[section]


@pytest.mark.parametrize("name", [name for name in SECTIONS if name != "host"])
@pytest.mark.parametrize("text", ["", "bash: thing: command not found", "Segmentation fault"])
def test_a_section_that_failed_is_unknown_with_the_text_that_was_found(name: str, text: str) -> None:
    facts = parse_probe(with_section(name, text, code=127), SCRIPT)
    assert told_unknown(facts, name)
    assert text in facts.model_dump_json()


@pytest.mark.parametrize("name", [name for name in SECTIONS if name != "host"])
def test_a_section_that_was_never_reached_is_unknown(name: str) -> None:
    answer = re.sub(rf"=={NONCE} {name} begin\n.*?=={NONCE} {name} end rc=0\n", "", ANSWER, flags=re.DOTALL)
    assert told_unknown(parse_probe(answer, SCRIPT), name)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "name and clock"),
        ("hostname=a1", "name and clock"),
        ("hostname=a1\nnow=yesterday", "name and clock"),
        ("hostname=a1\nnow=1\nlock=", "lock: want"),
        ("hostname=a1\nnow=1\nlock=somebody", "lock: want"),
    ],
)
def test_a_node_without_name_clock_or_a_readable_lock_is_refused(text: str, told: str) -> None:
    with pytest.raises(ProbeError, match=told):
        parse_probe(with_section("host", text), SCRIPT)


def test_a_folder_that_the_answer_does_not_know_is_an_error() -> None:
    other = ASKED.model_copy(update={"model": "/srv/models/other"})
    script = SCRIPT.model_copy(update={"request": ProbeRequest(services=(other,))})
    (model,) = parse_probe(ANSWER, script).models
    assert model.error == "the node did not look at this folder"


def test_an_answer_cut_off_anywhere_is_refused() -> None:
    for end in range(0, len(ANSWER.rstrip("\n")), 7):
        with pytest.raises(ProbeError):
            parse_probe(ANSWER[:end], SCRIPT)


@given(st.sampled_from(SECTIONS), st.text(), st.integers(0, 255))
def test_no_text_in_any_section_breaks_the_parser(name: str, text: str, code: int) -> None:
    try:
        facts = parse_probe(with_section(name, text, code), SCRIPT)
    except ProbeError:
        return
    if name != "host" and code != 0:
        assert told_unknown(facts, name)


@given(st.data())
def test_lines_lost_or_swapped_never_break_the_parser(data: st.DataObject) -> None:
    lines = ANSWER.splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        at, other = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        lines[at], lines[other] = lines[other], data.draw(st.sampled_from([lines[at], lines[at][:-3], ""]))
    try:
        assert isinstance(parse_probe("\n".join(lines), SCRIPT), NodeFacts)
    except ProbeError:
        return
