"""The verbs of the node script, on a real host."""

import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count

import pytest
from tiny_service import TinyHost, TinyRelease

from fleet.releases.command import NODE_SCRIPT, STATE
from operations.node_script import call_command, stage_call

pytestmark = pytest.mark.lab
numbers = count(1)


@pytest.fixture
def release(host: TinyHost) -> Iterator[TinyRelease]:
    """A release of a service that no other test uses, not staged."""
    number = next(numbers)
    made = TinyRelease(f"tiny-{number}", 9000 + number)
    yield made
    host.call("drop", made.name)


@pytest.fixture
def impatient(host: TinyHost) -> Iterator[None]:
    """The undo timer looks every second instead of every ten."""
    folder = "/etc/systemd/system/vllm-fleet-undo@.timer.d"
    lines = "[Timer]\nOnActiveSec=\nOnUnitInactiveSec=\nOnActiveSec=1\nOnUnitInactiveSec=1\n"
    host.run(f"mkdir {folder}; cat >{folder}/test.conf; systemctl daemon-reload", lines)
    yield
    host.run(f"rm -r {folder}; systemctl daemon-reload")


def changed(release: TinyRelease, **env: str) -> TinyRelease:
    """Another release of the same service."""
    return replace(release, env={"CHANGE": "1", **env}, budget=6)


def test_a_first_release_is_pending_until_its_proof(host: TinyHost, release: TinyRelease) -> None:
    reply = host.activate(release, run="run-7")
    assert reply.code == 0 and reply.values["active"] == release.id, reply
    state = host.state(release)
    assert host.answer(release) == release.id
    identity, since, deadline, run = state["pending"].split()
    assert (identity, int(deadline) - int(since), run) == (release.id, 300, "run-7")
    assert (state["enabled"], state["timer"], state["proven"]) == ("enabled", "active", "")
    assert f"vllm-fleet-undo@{release.name}.timer" in host.out("systemctl list-timers --no-pager")
    assert host.confirm(release).values["proven"] == release.id
    host.settled_on(release)
    assert host.out(f"cat {STATE}/{release.name}/releases/{release.id}/proof.json") == '{"answer": "42"}'
    assert host.confirm(release).code == 0, "a second proof of the same release is no mistake"


def test_two_proven_releases_are_kept(host: TinyHost, release: TinyRelease) -> None:
    second, third = changed(release), changed(release, CHANGE="2")
    for each in (release, second, third):
        host.prove(each)
    host.settled_on(third, previous=second.id)
    assert set(host.state(release)["releases"].split()) == {second.id, third.id}


def test_systemd_runs_the_unit_that_lies_on_disk_without_a_reload_for_a_new_one(
    host: TinyHost, release: TinyRelease
) -> None:
    host.prove(release)
    second = replace(release, extra="Nice=7\n")
    host.prove(second)
    unit = f"vllm-{release.name}.service"
    shown = host.out(f"systemctl show -p NeedDaemonReload -p Nice -p UnitFileState {unit}")
    assert set(shown.splitlines()) == {"NeedDaemonReload=no", "Nice=7", "UnitFileState=enabled"}


def test_a_release_that_crashes_fails_at_once_and_the_old_one_comes_back(host: TinyHost, release: TinyRelease) -> None:
    host.prove(release)
    began = time.monotonic()
    reply = host.activate(replace(changed(release, CRASH="1", LOAD_S="0.5"), budget=90))
    assert reply.code == 1 and "did not become active" in (reply.error or "")
    assert "CUDA error: out of memory" in reply.journal
    assert reply.values["Result"] == "exit-code"
    assert time.monotonic() - began < 60, "not only when the start budget is over"
    undone = host.call("undo", release.name, "canary")
    assert undone.code == 0 and undone.values["undone"] == release.id and undone.values["active"] == release.id
    host.settled_on(release)
    log = host.out(f"cat {STATE}/{release.name}/undo.log").split("\t")
    assert log[1] == "canary" and log[3] == release.id


def test_a_release_that_is_never_healthy_fails_when_its_budget_is_over(host: TinyHost, release: TinyRelease) -> None:
    slow = replace(changed(release, UNWELL_S="60"), budget=12)
    reply = host.activate(slow)
    assert reply.code == 1 and reply.values["Result"] == "timeout", reply
    assert any("activating/start-post" in note for note in reply.notes), "progress is shown"


def test_health_is_waited_for_while_the_engine_answers_503(host: TinyHost, release: TinyRelease) -> None:
    reply = host.activate(changed(release, UNWELL_S="2"))
    assert reply.code == 0 and int(reply.values["seconds"]) >= 1, reply


def test_undo_of_a_first_release_leaves_nothing_active(host: TinyHost, release: TinyRelease) -> None:
    host.activate(release)
    assert host.call("undo", release.name).values["undone"] == "none"
    state = host.state(release)
    assert (state["current"], state["pending"], state["active"], state["timer"]) == ("", "", "inactive", "inactive")
    assert host.run(f"test -e /etc/systemd/system/vllm-{release.name}.service").returncode == 1


def test_a_second_undo_restarts_nothing(host: TinyHost, release: TinyRelease) -> None:
    host.prove(release)
    host.activate(changed(release))
    host.call("undo", release.name)
    pid = host.out(f"systemctl show --value -p MainPID vllm-{release.name}")
    again = host.call("undo", release.name)
    assert again.values == {"undone": release.id, "changed": "no"}
    assert host.out(f"systemctl show --value -p MainPID vllm-{release.name}") == pid


def test_no_proof_before_the_deadline_brings_the_old_release_back(host: TinyHost, release: TinyRelease) -> None:
    host.prove(release)
    host.activate(changed(release), deadline_s=4)
    assert host.answer(release) == changed(release).id
    host.wait_answer(release, release, limit_s=30)
    time.sleep(1)
    host.settled_on(release)
    refused = host.confirm(changed(release))
    assert refused.code == 1 and "undo.log" in (refused.error or "")


def test_the_timer_undoes_an_activation_that_still_loads(impatient: None, host: TinyHost, release: TinyRelease) -> None:
    host.prove(release)
    loading = replace(changed(release, LOAD_S="60"), budget=100)
    with ThreadPoolExecutor() as pool:
        activation = pool.submit(host.activate, loading, 60)
        host.wait_state(release, active="activating", current=f"releases/{loading.id}")
        host.run(f"sed -i 's/ [0-9]* run1/ 1 run1/' {STATE}/{release.name}/pending")
        host.wait_answer(release, release, limit_s=30)
        reply = activation.result()
    assert reply.code == 1 and "no longer pending" in (reply.error or ""), reply


def test_undo_due_waits_for_the_deadline(host: TinyHost, release: TinyRelease) -> None:
    host.prove(release)
    host.activate(changed(release))
    before = host.out("date +%s")
    host.run(f"systemctl start vllm-fleet-undo@{release.name}.service")
    assert host.answer(release) == changed(release).id
    said = host.out(f"journalctl -q -o cat --since=@{before} -u vllm-fleet-undo@{release.name}.service")
    assert said == "", "a look that finds nothing to do says nothing"


def test_a_controller_that_is_gone_leaves_a_pending_release_to_the_timer(
    impatient: None, host: TinyHost, release: TinyRelease
) -> None:
    host.prove(release)
    loading = replace(changed(release, LOAD_S="60"), budget=100)
    host.stage(loading)
    command = f"{NODE_SCRIPT} activate {release.name} {loading.id} 8 run1"
    session = subprocess.Popen([*host.lab.ssh_command(host.name), "--", command], stdin=subprocess.DEVNULL)
    host.wait_state(release, active="activating", current=f"releases/{loading.id}")
    session.kill()
    session.wait()
    assert host.state(release)["pending"].startswith(loading.id)
    host.wait_answer(release, release, limit_s=40)
    host.settled_on(release)


@pytest.mark.parametrize("verb", ["activate", "undo"])
def test_a_verb_killed_anywhere_is_repaired_by_an_undo(host: TinyHost, release: TinyRelease, verb: str) -> None:
    host.prove(release)
    second = changed(release)
    host.stage(second)
    for milliseconds in range(15, 150, 30):
        if verb == "activate":
            host.run(f"timeout -s KILL 0.{milliseconds:03} {NODE_SCRIPT} activate {release.name} {second.id} 300 run1")
        else:
            host.call("activate", release.name, second.id, "300", "run1")
            host.run(f"timeout -s KILL 0.{milliseconds:03} {NODE_SCRIPT} undo {release.name}")
        state = host.state(release)
        if state["current"] != f"releases/{release.id}":
            assert state["pending"].startswith(second.id) and state["timer"] == "active", "somebody will undo it"
        assert host.call("undo", release.name).code == 0
        host.settled_on(release)


def test_exactly_one_of_twenty_gets_the_lock(host: TinyHost) -> None:
    tries = "; ".join(f"{NODE_SCRIPT} lock 'me{i}@here' run{i} 60 >/run/lock-{i} & p{i}=$!" for i in range(20))
    waits = "; ".join(f"wait $p{i}; echo $?" for i in range(20))
    codes = host.out(f"bash -c '{tries.replace(chr(39), chr(34))}; {waits}'").split()
    try:
        assert sorted(codes) == ["0"] + ["3"] * 19
        winner = codes.index("0")
        loser = host.out(f"cat /run/lock-{(winner + 1) % 20}").splitlines()
        assert f"held=me{winner}@here" in loser
        assert int(dict(line.split("=") for line in loser)["expires"]) > time.time() - 120
    finally:
        host.run(f"rm -f {STATE}/lock")


def test_a_lock_is_renewed_by_its_run_and_dead_after_its_lease(host: TinyHost) -> None:
    first = host.call("lock", "ann@desk", "run-a", "2")
    assert first.values["locked"] == "run-a"
    again = host.call("lock", "ann@desk", "run-a", "2")
    assert again.code == 0 and again.values["since"] == first.values["since"], "the same run locks again"
    assert host.call("renew", "run-b", "60").code == 3
    assert host.call("unlock", "run-b").code == 3
    assert host.call("renew", "run-a", "2").code == 0
    time.sleep(2.2)
    taken = host.call("lock", "bob@desk", "run-b", "60")
    assert taken.code == 0 and "ann@desk" in taken.notes[0]
    lost = host.call("renew", "run-a", "60")
    assert lost.code == 3 and lost.values["held"] == "bob@desk"
    assert host.call("unlock", "run-b").code == 0
    assert host.call("unlock", "run-b").code == 0


def test_a_lock_that_cannot_be_read_is_not_taken(host: TinyHost) -> None:
    host.run(f"echo nonsense >{STATE}/lock")
    try:
        reply = host.call("lock", "ann@desk", "run-a", "60")
        assert reply.code == 1 and "nonsense" in (reply.error or "")
    finally:
        host.run(f"rm -f {STATE}/lock")


def test_a_stream_that_was_cut_off_leaves_no_release(host: TinyHost, release: TinyRelease) -> None:
    stream = stage_call(release.name, release.id, release.files).stdin
    for length in (0, 40, len(stream) // 2, len(stream) - 30, len(stream) - 3):
        reply = host.call("stage", release.name, release.id, stdin=stream[:length] or "\n")
        assert reply.code == 1 and "stage" in (reply.error or ""), reply
        assert host.state(release)["releases"] == "", length


def test_content_that_changed_on_the_way_is_refused(host: TinyHost, release: TinyRelease) -> None:
    stream = stage_call(release.name, release.id, release.files).stdin.replace("tiny service", "tidy service")
    reply = host.call("stage", release.name, release.id, stdin=stream)
    assert reply.code == 1 and "not what was sent" in (reply.error or "")
    assert host.state(release)["releases"] == ""


def test_a_unit_with_an_unknown_key_is_refused_and_one_for_a_newer_systemd_is_not(
    host: TinyHost, release: TinyRelease
) -> None:
    reply = host.stage(replace(release, extra="RestartMaxDelaySec=300\nRestartSteps=5\nMemoryMaximum=1G\n"))
    assert reply.code == 1 and "MemoryMaximum" in (reply.error or ""), reply
    assert host.stage(replace(release, extra="RestartMaxDelaySec=300\nRestartSteps=5\n")).code == 0


def test_staging_again_changes_nothing_and_puts_right_what_someone_edited(host: TinyHost, release: TinyRelease) -> None:
    odd = replace(release, env={"TEXT": "ünïcödé 'quoted' %i $x \t end"}, secret="s3cr3t")
    folder = f"{STATE}/{odd.name}/releases/{odd.id}"
    look = f"cd {folder} && stat -c '%n %a %U:%G %i' * && cat env secrets.env"
    assert host.stage(odd).values == {"staged": odd.id, "changed": "yes"}
    before = host.out(look)
    assert host.stage(odd).values["changed"] == "no"
    assert host.out(look) == before
    host.run(f"chmod 644 {folder}/secrets.env; echo x >>{folder}/env; mv {folder}/unit {folder}/plan.json /run")
    assert host.stage(odd).values["changed"] == "yes"
    host.run(f"chmod 644 {folder}/secrets.env; echo x >>{folder}/env")
    assert host.stage(odd).values["changed"] == "yes"
    assert host.out(f"cd {folder} && stat -c '%n %a %U:%G' *").splitlines() == [
        "env 600 root:root",
        "plan.json 600 root:root",
        "secrets.env 600 root:root",
        "unit 644 root:root",
    ]
    assert host.out(f"cat {folder}/env") + "\n" == odd.files["env"][1]
    assert host.state(odd)["releases"] == odd.id, "no temporary folder stays"


def test_a_full_disk_stops_staging_and_not_an_undo(host: TinyHost, release: TinyRelease) -> None:
    big = replace(changed(release), env={"PADDING": "x" * 200_000})
    host.run(f"mkdir -p {STATE}/{release.name} && mount -t tmpfs -o size=128k,mode=700 tmpfs {STATE}/{release.name}")
    try:
        host.prove(release)
        reply = host.stage(big)
        assert reply.code == 1 and "disk full" in (reply.error or ""), reply
        assert host.state(release)["releases"] == release.id
        host.activate(changed(release))
        host.run(f"cat /dev/zero >{STATE}/{release.name}/fill")
        assert host.call("undo", release.name).code == 0
        host.settled_on(release)
    finally:
        host.call("stop", release.name)
        host.run(f"umount {STATE}/{release.name}")


def test_drop_leaves_no_trace_and_can_be_repeated(host: TinyHost, release: TinyRelease) -> None:
    host.prove(release)
    dropped = host.call("drop", release.name)
    assert dropped.code == 0 and dropped.values["changed"] == "yes"
    assert host.out(f"find {STATE} /etc/systemd /run/systemd -name '*{release.name}*'") == ""
    assert host.answer(release) == ""
    assert host.call("drop", release.name).values["changed"] == "no"


def test_start_and_stop(host: TinyHost, release: TinyRelease) -> None:
    host.prove(release)
    assert host.call("stop", release.name).code == 0
    assert host.state(release)["active"] == "inactive"
    assert host.call("start", release.name).code == 0
    host.settled_on(release)


@pytest.mark.parametrize(
    "words",
    [
        ("undo", "../etc"),
        ("undo", "a b"),
        ("activate", "tiny", "0123", "60", "run1"),
        ("activate", "tiny", "0123456789abcdef", "0", "run1"),
        ("lock", "me"),
        ("unlock", "run;reboot"),
        ("nothing",),
        ("stop", "tiny", "more"),
        ("confirm", ""),
    ],
)
def test_a_wrong_call_does_nothing(host: TinyHost, words: tuple[str, ...]) -> None:
    done = host.run(call_command(words))
    assert done.returncode == 2 and "error=" in done.stdout, done
