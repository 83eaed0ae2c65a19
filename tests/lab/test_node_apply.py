"""Files and calls reach a host through one channel of pyinfra, and nothing of them stands in an argv."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyinfra.api import Config, Inventory, State
from pyinfra.api.connect import connect_all, disconnect_all
from pyinfra.context import ctx_state
from tiny_service import PROGRAM, TinyHost, TinyRelease

from fleet.releases.command import NODE_SCRIPT, STATE
from operations.node_script import (
    Apply,
    Call,
    Reply,
    apply_command,
    call_command,
    lock_call,
    node_script_sha256,
    read_replies,
    read_reply,
    stage_call,
    support_files,
)

pytestmark = pytest.mark.lab
RELEASE = TinyRelease("applied", 9200, env={"WORDS": "it's %i $HOME `x` \\\\ ünï"}, secret="hunter2-very-secret")


class Channel:
    """A host as pyinfra's SSH connector reaches it."""

    def __init__(self, lab: Any, name: str) -> None:
        folder = Path(lab.folder)
        data = {
            "ssh_hostname": lab.node(name).address,
            "ssh_user": "root",
            "ssh_key": str(folder / "id_ed25519"),
            "ssh_known_hosts_file": str(folder / "known_hosts"),
            "ssh_strict_host_key_checking": "yes",
        }
        self.state = State(Inventory(([(name, data)], {})), Config())
        with ctx_state.use(self.state):
            connect_all(self.state)
        self.host = self.state.inventory.get_host(name)

    def send(self, sent: Apply) -> tuple[bool, list[str]]:
        """Carry out an Apply; its success and what it printed."""
        done, output = self.host.run_shell_command(sent.command, _stdin=sent.stdin)
        return done, output.stdout_lines

    def apply(self, files: dict[str, tuple[str, str]], *calls: Call) -> list[Reply]:
        """Files and calls over one channel."""
        return read_replies(self.send(apply_command(files, calls))[1], calls)


@pytest.fixture(scope="module")
def host(lab: Any) -> Iterator[TinyHost]:
    """A host that has never seen the script."""
    found = TinyHost(lab, lab.nodes[0].name)
    found.install()
    found.call("drop", RELEASE.name)
    found.run(f"rm -rf /usr/local/lib/vllm-fleet {STATE} /etc/systemd/system/vllm-fleet-*; systemctl daemon-reload")
    yield found
    found.install()


@pytest.fixture(scope="module")
def channel(lab: Any, host: TinyHost) -> Iterator[Channel]:
    """pyinfra's connection to it."""
    made = Channel(lab, host.name)
    yield made
    disconnect_all(made.state)


def test_a_lock_needs_nothing_in_place(host: TinyHost, channel: Channel) -> None:
    assert host.run(f"test -e {NODE_SCRIPT}").returncode == 1
    words = ("lock", "ann o'neil@desk", "run-1", "60")
    done, lines = channel.send(lock_call(words))
    assert done and read_reply(lines, words, 0).values["locked"] == "run-1"
    done, lines = channel.send(lock_call(("lock", "bob", "run-2", "60")))
    assert not done and "held=ann o'neil@desk" in lines


def test_one_channel_installs_locks_and_stages(host: TinyHost, channel: Channel) -> None:
    replies = channel.apply(
        support_files(),
        Call(words=("lock", "ann o'neil@desk", "run-1", "60")),
        stage_call(RELEASE.name, RELEASE.id, RELEASE.files),
    )
    assert [reply.code for reply in replies] == [0, 0], replies
    assert replies[1].values == {"staged": RELEASE.id, "changed": "yes"}
    assert host.out(f"sha256sum <{NODE_SCRIPT}").split()[0] == node_script_sha256()
    modes = host.out(f"stat -c '%a %U:%G' {NODE_SCRIPT} /etc/systemd/system/vllm-fleet-*").splitlines()
    assert modes == ["755 root:root"] + ["644 root:root"] * (len(support_files()) - 1)
    assert host.out("systemctl is-enabled vllm-fleet-boot.service") == "enabled"
    folder = f"{STATE}/{RELEASE.name}/releases/{RELEASE.id}"
    assert host.out(f"cat {folder}/env") + "\n" == RELEASE.files["env"][1]
    assert host.out(f"cut -f1 {STATE}/lock") == "ann o'neil@desk"
    assert host.out("find /etc/systemd/system /usr/local/lib/vllm-fleet -name '.?*'") == "", (
        "nothing half-written stays"
    )


def test_a_release_is_rolled_with_a_changed_unit_of_ours(host: TinyHost, channel: Channel) -> None:
    timer = "/etc/systemd/system/vllm-fleet-undo@.timer"
    old = {timer: ("644", support_files()[timer][1].replace("=10", "=33"))}
    host.run("mkdir -p /srv; cat >/srv/tiny.py", PROGRAM)
    calls = [
        stage_call(RELEASE.name, RELEASE.id, RELEASE.files),
        Call(words=("activate", RELEASE.name, RELEASE.id, "300", "run-1")),
        Call(words=("confirm", RELEASE.name, RELEASE.id), stdin='{"text": "it\'s 42"}'),
        Call(words=("unlock", "run-1")),
    ]
    replies = channel.apply(old, *calls)
    assert [reply.code for reply in replies] == [0, 0, 0, 0], replies
    host.settled_on(RELEASE)
    assert channel.apply({timer: support_files()[timer]}) == []
    assert host.out("systemctl show --value -p NeedDaemonReload vllm-fleet-boot.service") == "no"
    assert host.run(f"test -e {STATE}/lock").returncode == 1


def test_calls_end_with_the_first_that_fails(channel: Channel) -> None:
    calls = [
        Call(words=("undo", "applied")),
        Call(words=("activate", "applied", "0" * 16, "60", "run-1")),
        Call(words=("drop", "applied")),
    ]
    replies = channel.apply({}, *calls)
    assert [reply.code for reply in replies] == [0, 1]
    assert replies[1].words == calls[1].words and "not complete" in (replies[1].error or "")


def test_a_text_that_was_cut_off_is_not_carried_out(host: TinyHost, channel: Channel) -> None:
    whole = apply_command({"/etc/vllm-fleet-test": ("644", "x")}, [])
    for length in (10, len(whole.stdin) // 2, len(whole.stdin) - 2):
        done, lines = channel.send(whole.model_copy(update={"stdin": whole.stdin[:length]}))
        assert not done and "cut off" in lines[0]
    assert host.run("test -e /etc/vllm-fleet-test").returncode == 1


def test_a_file_that_cannot_be_put_is_told_and_stops_the_calls(host: TinyHost, channel: Channel) -> None:
    host.run("mkdir -p /run/tiny-full && mount -t tmpfs -o size=4k tmpfs /run/tiny-full")
    try:
        calls = (Call(words=("unlock", "run-1")),)
        replies = channel.apply({"/run/tiny-full/file": ("600", "x" * 90_000)}, *calls)
        assert len(replies) == 1 and replies[0].words == () and "disk full" in (replies[0].error or "")
        assert host.out("ls -A /run/tiny-full") == ""
    finally:
        host.run("umount /run/tiny-full")


def test_secrets_and_large_texts_never_stand_in_an_argv(host: TinyHost, channel: Channel) -> None:
    large = replace(RELEASE, env={"PADDING": "y" * 300_000})
    sent = apply_command(support_files(), [stage_call(large.name, large.id, large.files)])
    assert len(sent.command) < 500 and "hunter2" not in sent.command and "hunter2" not in repr(sent)
    host.run("cat >/run/patterns", "hunter2\nyyyyyyyy\n")
    watch = "while :; do grep -alsf /run/patterns /proc/[0-9]*/cmdline; done >/run/seen 2>/dev/null"
    host.run(f'systemd-run --quiet --collect --unit=tiny-watch bash -c "{watch}"')
    host.run("bash -c 'exec -a hunter2 sleep 0.5'")
    assert host.out("cat /run/seen"), "the watcher sees such a process"
    host.run(": >/run/seen")
    done, lines = channel.send(sent)
    assert done and "changed=yes" in lines
    assert host.out("cat /run/seen") == ""
    host.run("systemctl stop tiny-watch")
    journal = host.run("journalctl --no-pager | grep -c hunter2").stdout.strip()
    assert journal == "0"


def test_a_single_call_needs_no_text(host: TinyHost, channel: Channel) -> None:
    words = ("lock", "bob's desk", "run-2", "60")
    done, output = channel.host.run_shell_command(call_command(words))
    reply = read_reply(output.stdout_lines, words, 0 if done else 1)
    assert reply.code == 0 and reply.values["locked"] == "run-2"
    assert channel.host.run_shell_command(call_command(("unlock", "run-2")))[0]
