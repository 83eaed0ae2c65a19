"""What is sent to a node, and how its answer is read; no host needed."""

import pytest

from fleet.nodes.node import NodeFacts, OwnFile, Runtime
from fleet.nodes.nvidia import Nvidia
from fleet.releases.command import NODE_SCRIPT
from operations.node_script import (
    Call,
    apply_command,
    node_script_sha256,
    outdated_support,
    read_replies,
    stage_call,
    support_files,
)

CALLS = (Call(words=("stage", "glm", "0" * 16)), Call(words=("lock", "me", "run", "60")))


def test_an_answer_is_split_by_call_and_by_kind_of_line() -> None:
    lines = [
        *("put=/usr/local/lib/vllm-fleet/node", "@begin 0", "# systemd-analyze: other.service: old path"),
        *("staged=0000000000000000", "changed=yes", "@end 0 0", "@begin 1", "held=ann=o", "since=5", "@end 1 3"),
    ]
    stage, lock = read_replies(lines, CALLS)
    assert stage.code == 0 and stage.error is None and stage.words == CALLS[0].words
    assert stage.values == {"staged": "0" * 16, "changed": "yes"}
    assert stage.notes == ("systemd-analyze: other.service: old path",)
    assert (lock.code, lock.values["held"], lock.error) == (3, "ann=o", "exit code 3")


def test_an_answer_that_was_cut_off_is_no_success() -> None:
    (reply,) = read_replies(["@begin 0", "staged=0000000000000000"], CALLS)
    assert reply.code is None and reply.error == "the answer was cut off"
    assert read_replies([], CALLS) == []


def test_a_failure_before_the_first_call_is_told() -> None:
    (reply,) = read_replies(["put=/a", "error=cannot write /b; is the disk full?"], CALLS)
    assert reply.words == () and reply.error == "cannot write /b; is the disk full?"


def test_the_journal_of_a_failed_start_is_kept_apart() -> None:
    lines = [
        "@begin 0",
        "Result=exit-code",
        "| CUDA error: a=b",
        "| # no note",
        "error=did not become active",
        "@end 0 1",
    ]
    (reply,) = read_replies(lines, CALLS)
    assert reply.journal == ("CUDA error: a=b", "# no note")
    assert reply.error == "did not become active" and reply.values["Result"] == "exit-code"


def test_the_plan_goes_last_and_sizes_are_bytes() -> None:
    call = stage_call("glm", "0" * 16, {"plan.json": ("600", "{}"), "unit": ("644", "ü\n"), "env": ("600", "")})
    head, _, body = call.stdin.partition("\n\n")
    assert [line.split()[0] for line in head.splitlines()] == ["env", "unit", "plan.json"]
    assert [line.split()[3] for line in head.splitlines()] == ["0", "3", "2"]
    assert body == "ü\n{}end\n"


def test_a_nul_byte_is_refused() -> None:
    with pytest.raises(ValueError, match=r"env.*NUL|NUL.*env"):
        stage_call("glm", "0" * 16, {"unit": ("644", "x"), "env": ("600", "a\0b"), "plan.json": ("600", "{}")})
    with pytest.raises(ValueError, match="NUL"):
        apply_command({"/etc/x": ("644", "\0")}, [])


def test_nothing_that_is_sent_stands_in_the_command_or_in_a_repr() -> None:
    call = stage_call("glm", "0" * 16, {"secrets.env": ("600", 'T="s3cr3t"\n'), "plan.json": ("600", "{}")})
    sent = apply_command({}, [call])
    assert "s3cr3t" in sent.stdin
    assert "s3cr3t" not in sent.command + repr(sent) + repr(call)
    assert sent.command == apply_command(support_files(), []).command


def facts(script: str | None, *files: OwnFile) -> NodeFacts:
    """A node that has these files of ours."""
    return NodeFacts(
        hostname="n",
        now=1,
        nvidia=Nvidia(),
        runtime=Runtime(name="podman"),
        node_script_sha256=script,
        support_files=files,
    )


def test_only_support_files_that_are_not_as_they_should_be_are_sent() -> None:
    assert set(outdated_support(facts(None))) == set(support_files())
    units = [path for path in support_files() if path != NODE_SCRIPT]
    assert set(outdated_support(facts(node_script_sha256()))) == set(units)
    edited = OwnFile(path=units[0], sha256="0" * 64, mode="644", owner="root:root")
    assert units[0] in outdated_support(facts(node_script_sha256(), edited))
