"""From a bare host to a served completion: bootstrap, deliver, deploy, each twice, on real hosts of the lab."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from apt_archive import Signer
from bootstrap_site import DRIVER, NEW, NODE, OLD, archive_for, bootstrap, declare, strip
from delivery_site import TARGET, make_checkpoint
from rollout_site import BIN, RolloutSite

from fleet.releases.places import NODE_SCRIPT
from lab import rootfs
from lab.lab import Lab
from lab.standin.archive import archive
from lab.standin.image import build as build_image

pytestmark = [pytest.mark.lab, pytest.mark.systems]
PROOF = ("smoke",)
VERSION = "0.30.0"


@pytest.fixture(scope="module")
def packages(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """URL of the archive and the file of its key."""
    with archive_for(lab, tmp_path_factory.mktemp("apt")) as there:
        yield there


@pytest.fixture(scope="module")
def fleet(lab: Lab, packages: tuple[str, Path], shared_site: RolloutSite) -> RolloutSite:
    """One bare host, and all that it is to become declared."""
    url, key = packages
    strip(shared_site)
    source = make_checkpoint(shared_site.root / "source")
    manifest = shared_site.root / "m.manifest"
    subprocess.run([BIN / "fleet", "manifest", source, "-o", manifest], check=True, capture_output=True)
    tree = build_image(rootfs.ensure(lambda text: None), shared_site.root / "tree", VERSION)
    (tree / "etc/of-this-test").write_text("another image than the lab's own\n")
    file = shared_site.root / "image.tar"
    digest = archive(tree, file, f"localhost/delivered:{VERSION}", VERSION)
    image = {"name": "localhost/delivered", "digest": digest, "engine": VERSION, "archive": str(file)}
    checkpoint = {"manifest": str(manifest), "folder": str(source)}
    shared_site.write(m=shared_site.service(model=TARGET, checkpoint=checkpoint, image=image))
    declare(shared_site, url, key)
    return shared_site


def test_a_dry_run_shows_every_step_and_the_files_and_changes_nothing(fleet: RolloutSite) -> None:
    ran = bootstrap(fleet, "--dry", "--diff")
    assert ran.code == 0, ran.out
    for told in (
        "Install rsync, podman, nvidia-container-toolkit=1.17.*, chrony",
        "Make the system user vllm",
        "+ * - nofile",
    ):
        assert told in ran.plain, ran.out
    assert "Signed-By: /etc/apt/keyrings/vllm-fleet-test.asc" in ran.plain
    assert (
        fleet.on(NODE, "ls /usr/bin/podman /etc/apt/keyrings/vllm* /usr/local/lib/vllm-fleet 2>/dev/null || true") == ""
    )


def test_a_bare_host_becomes_a_node(fleet: RolloutSite) -> None:
    ran = bootstrap(fleet)
    assert ran.code == 0, ran.out
    for look in (
        "podman --version && rsync --version >/dev/null && id vllm",
        "dpkg-query -W -f '${Version}' nvidia-container-toolkit | grep -x 1.17.8-1",
        "systemctl is-active chrony",
        "grep -q 'driver-version: ' /etc/cdi/nvidia.yaml",
        "systemctl is-enabled vllm-fleet-boot vllm-fleet-cdi",
        'test "$(stat -c %U /srv/own)" = vllm',
    ):
        fleet.on(NODE, look)


def test_a_second_run_has_nothing_to_do(fleet: RolloutSite) -> None:
    before = fleet.on(NODE, "find /etc /usr/bin /usr/lib/systemd /srv -xdev -printf '%p %T@ %C@\\n' | sort | sha256sum")
    ran = bootstrap(fleet)
    assert ran.code == 0, ran.out
    assert "Nothing to do" in ran.plain
    after = fleet.on(NODE, "find /etc /usr/bin /usr/lib/systemd /srv -xdev -printf '%p %T@ %C@\\n' | sort | sha256sum")
    assert after == before


def test_a_changed_driver_gets_a_new_specification_and_a_changed_file_is_put_right(fleet: RolloutSite) -> None:
    fleet.on(NODE, "sed -Ei 's/(driver-version: |libcuda\\.so\\.)[0-9.]+/\\11.2.3/' /etc/cdi/nvidia.yaml")
    fleet.on(NODE, "echo '* - nofile 7' >/etc/security/limits.d/90-vllm-fleet.conf")
    ran = bootstrap(fleet)
    assert ran.code == 0, ran.out
    assert "Generate the CDI specification (it is for 1.2.3" in ran.plain
    assert "nofile 1048576" in fleet.on(NODE, "cat /etc/security/limits.d/90-vllm-fleet.conf")


def test_the_specification_is_refreshed_at_boot_wherever_the_toolkit_was_installed_to(fleet: RolloutSite) -> None:
    """And without a toolkit the unit is skipped: a boot with a failed unit is looked into by somebody."""
    away = "mv /usr/bin/nvidia-ctk /usr/local/bin/nvidia-ctk; mv /etc/cdi/nvidia.yaml /root/nvidia.yaml"
    fleet.on(NODE, f"{away}; systemctl restart vllm-fleet-cdi; cmp /etc/cdi/nvidia.yaml /root/nvidia.yaml")
    fleet.on(NODE, "mv /usr/local/bin/nvidia-ctk /root/; systemctl restart vllm-fleet-cdi")
    assert fleet.on(NODE, "systemctl is-failed vllm-fleet-cdi || true") == "inactive"
    fleet.on(NODE, "mv /root/nvidia-ctk /usr/bin/; systemctl restart vllm-fleet-cdi")


def test_an_archive_that_does_not_answer_is_named(fleet: RolloutSite, packages: tuple[str, Path]) -> None:
    """apt-get calls that a warning and ends with 0."""
    nobody = {"url": "http://127.0.0.1:9/deb", "suite": "./", "key": str(packages[1])}
    declared = (fleet.fleet / "group_data/all.yaml").read_text()
    document = yaml.safe_load(declared)
    document["host"]["apt"]["nobody"] = nobody
    (fleet.fleet / "group_data/all.yaml").write_text(yaml.safe_dump(document))
    ran = bootstrap(fleet)
    (fleet.fleet / "group_data/all.yaml").write_text(declared)
    fleet.on(NODE, "rm /etc/apt/sources.list.d/vllm-fleet-nobody.sources /etc/apt/keyrings/vllm-fleet-nobody.asc")
    assert ran.code == 1
    assert "want the package lists of http://127.0.0.1:9/deb, found:" in ran.plain


def test_image_and_checkpoint_are_delivered_once(fleet: RolloutSite) -> None:
    ran = fleet.pyinfra("deliver.py", "-y", timeout=240)
    assert ran.code == 0, ran.out
    assert "localhost/delivered" in fleet.on(NODE, "podman images")
    again = fleet.pyinfra("deliver.py", "-y", timeout=240)
    assert again.code == 0, again.out
    assert "Nothing to deliver" in again.plain


def test_it_is_rolled_out_and_serves_and_the_second_time_nothing_changes(fleet: RolloutSite) -> None:
    ran = fleet.deploy()
    assert ran.code == 0, ran.out
    assert "smoke: " in ran.plain and "proven" in ran.plain
    again = fleet.deploy()
    assert again.code == 0, again.out
    assert "Nothing to change" in again.plain
    assert "Nothing to do" in bootstrap(fleet).plain


def test_a_key_that_did_not_sign_the_archive_is_refused_by_apt(
    fleet: RolloutSite, packages: tuple[str, Path], tmp_path: Path
) -> None:
    stranger = Signer(tmp_path / "gpg")
    other = stranger.public(tmp_path / "other.asc")
    stranger.close()
    declare(fleet, packages[0], other, packages=["never-there"])
    ran = bootstrap(fleet)
    assert ran.code == 1
    assert "never-there" not in fleet.on(NODE, "dpkg-query -W -f '${Package} '")
    declare(fleet, *packages)
    bootstrap(fleet)


def test_what_is_no_key_is_told_without_a_traceback_and_a_refused_machine_is_not_called_conforming(
    fleet: RolloutSite, packages: tuple[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "no.asc").write_text("a page of a login wall\n")
    declare(fleet, packages[0], tmp_path / "no.asc")
    ran = bootstrap(fleet, "--dry")
    assert ran.code == 1
    assert f"host.apt.test.key: want an OpenPGP public key, found other bytes in {tmp_path}/no.asc" in ran.plain
    assert "Traceback" not in ran.out
    declare(fleet, *packages, folders=["/etc/passwd"])
    ran = bootstrap(fleet, "--dry")
    assert ran.code == 1
    assert f"{NODE}: refused" in ran.plain and "want a folder at /etc/passwd, owned by vllm" in ran.plain
    assert "as declared" not in ran.plain
    declare(fleet, *packages)


OTHERS_WORK = """
import fcntl, time
open("/proc/self/comm", "w").write("unattended-upgr")
paths = ["/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock"]
held = [open(path, "w") for path in paths]
for one in held:
    fcntl.lockf(one, fcntl.LOCK_EX)
time.sleep(9)
"""


def test_what_the_machine_has_under_other_names_is_taken_as_it_is_and_the_work_of_others_is_waited_for(
    fleet: RolloutSite, packages: tuple[str, Path]
) -> None:
    """Its owner's file of the archive with another key's path, its user's own group, unattended-upgrades at work."""
    url, key = packages
    ours = "/etc/apt/sources.list.d/vllm-fleet-test.sources /etc/apt/keyrings/vllm-fleet-test.asc"
    fleet.on(NODE, f"rm {ours}; groupadd mlops; usermod -g mlops vllm; apt-get purge -y nvidia-container-toolkit")
    assert fleet.lab.ssh(NODE, "cat >/usr/share/keyrings/own.asc", input=key.read_text()).returncode == 0
    line = f"deb [signed-by=/usr/share/keyrings/own.asc] {url} ./"
    fleet.on(NODE, f"echo '{line}' >/etc/apt/sources.list.d/own.list; rm -rf /srv/own")
    assert fleet.lab.ssh(NODE, "cat >/run/others.py", input=OTHERS_WORK).returncode == 0
    fleet.on(NODE, "(setsid python3 /run/others.py >/dev/null 2>&1 </dev/null &); sleep 1")
    ran = bootstrap(fleet)
    assert ran.code == 0, ran.out
    assert "unattended-upgr works with packages there; its end is waited for" in ran.plain
    assert fleet.on(NODE, "ls /etc/apt/sources.list.d; stat -c %U:%G /srv/own") == "own.list\nvllm:mlops"
    assert (
        fleet.on(NODE, "apt-get update >/dev/null && dpkg-query -W -f '${Version}' nvidia-container-toolkit")
        == "1.17.8-1"
    )
    assert "Nothing to do" in bootstrap(fleet).plain
    fleet.on(NODE, "rm /etc/apt/sources.list.d/own.list; usermod -g vllm vllm; chown vllm:vllm /srv/own")
    assert bootstrap(fleet).code == 0


def test_a_machine_that_someone_else_changes_is_left_alone_and_the_holder_is_named(fleet: RolloutSite) -> None:
    fleet.on(NODE, "echo '* - nofile 7' >/etc/security/limits.d/90-vllm-fleet.conf")
    lock = "someone@elsewhere pid 7\\t$(date +%s)\\t$(($(date +%s) + 600))\\tother"
    fleet.on(NODE, f'printf "{lock}\\n" >/var/lib/vllm-fleet/lock')
    assert bootstrap(fleet, "--dry").code == 0
    for verb in ("bootstrap.py", "deploy.py"):
        more = ("--data", "max_model_len=2048") if verb == "deploy.py" else ()
        ran = fleet.pyinfra(verb, "-y", *more)
        assert ran.code == 1, ran.out
        assert f"want {NODE} to be free, found it held by someone@elsewhere pid 7 since" in ran.plain
    assert "nofile 7" in fleet.on(NODE, "cat /etc/security/limits.d/90-vllm-fleet.conf; rm /var/lib/vllm-fleet/lock")


LOCK = "/var/lib/vllm-fleet/lock"
SLOW_MKDIR = """#!/bin/sh
case "$*" in */srv/0*) touch /run/begun; until [ -e /run/go ]; do sleep 0.1; done ;; esac
exec /usr/bin/mkdir "$@"
"""


@pytest.fixture
def in_a_step(fleet: RolloutSite) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """A bootstrap in the middle of its step for /srv/0, which ends when `/run/go` is there; /srv/1 comes after it."""
    declared = (fleet.fleet / "group_data/all.yaml").read_text()
    document = yaml.safe_load(declared)
    document["host"]["folders"] = ["/srv/0", "/srv/1"]
    (fleet.fleet / "group_data/all.yaml").write_text(yaml.safe_dump(document))
    fleet.lab.ssh(NODE, "cat >/usr/local/bin/mkdir; chmod 755 /usr/local/bin/mkdir", input=SLOW_MKDIR)

    def begun(*words: str) -> "subprocess.Popen[str]":
        running = fleet.start("bootstrap.py", "-y", *words)
        deadline = time.monotonic() + 60
        while not fleet.on(NODE, "ls /run/begun 2>/dev/null || true"):
            assert time.monotonic() < deadline and running.poll() is None
        assert str(running.pid) in fleet.on(NODE, f"cat {LOCK}")
        return running

    yield begun
    fleet.on(NODE, f"touch /run/go; rm -rf {LOCK} /srv/0 /srv/1 /usr/local/bin/mkdir; sleep 0.3; rm /run/go /run/begun")
    (fleet.fleet / "group_data/all.yaml").write_text(declared)


def test_a_bootstrap_that_is_interrupted_ends_its_step_and_gives_the_lock_back(
    fleet: RolloutSite, in_a_step: Callable[..., "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    running = in_a_step("--data", f"report={tmp_path / 'report.json'}")
    os.killpg(running.pid, signal.SIGINT)
    time.sleep(1)
    fleet.on(NODE, "touch /run/go")
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 1, out
    assert "SIGINT: the step that has begun is ended, no other begins" in out and "Traceback" not in out
    assert fleet.on(NODE, f"ls -d {LOCK} /srv/0 /srv/1 2>/dev/null || true") == "/srv/0", out
    told = json.loads((tmp_path / "report.json").read_text())
    assert told["stopped"].startswith("interrupted by SIGINT between two steps, and the locks were given back")
    again = bootstrap(fleet, "-y", "--json")
    assert again.code == 0 and [row["status"] for row in again.machine["nodes"]] == ["done"], again.out
    assert fleet.on(NODE, f"ls -d {LOCK} /srv/1 2>/dev/null || true") == "/srv/1"


def test_a_bootstrap_that_is_interrupted_twice_leaves_at_once_and_says_whose_lock_stays(
    fleet: RolloutSite, in_a_step: Callable[..., "subprocess.Popen[str]"]
) -> None:
    running = in_a_step()
    for _ in range(2):
        os.killpg(running.pid, signal.SIGTERM)
        time.sleep(0.5)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 1 and "Traceback" not in out, out
    assert f"stopped: left by SIGTERM in a step; the lock of {NODE} runs out by itself" in out
    assert str(running.pid) in fleet.on(NODE, f"cat {LOCK}")


def test_of_two_bootstraps_one_proceeds_and_the_other_names_it(fleet: RolloutSite) -> None:
    fleet.on(NODE, "echo '* - nofile 7' >/etc/security/limits.d/90-vllm-fleet.conf")
    both = [fleet.start("bootstrap.py", "-y") for _ in range(2)]
    told = [run.communicate(timeout=120)[0] for run in both]
    codes = [run.returncode for run in both]
    assert sorted(codes) == [0, 1], "\n".join(told)
    assert f"pid {both[codes.index(0)].pid} since" in " ".join(told[codes.index(1)].split())
    assert fleet.on(NODE, "cat /var/lib/vllm-fleet/lock 2>/dev/null || true") == ""
    assert "Nothing to do" in bootstrap(fleet).plain


def with_driver(fleet: RolloutSite, packages: tuple[str, Path]) -> None:
    declare(fleet, *packages, packages=["unattended-upgrades"], driver={"package": DRIVER, "version": "590.*"})


def test_a_driver_is_not_changed_while_an_engine_runs_whoever_started_it(
    fleet: RolloutSite, packages: tuple[str, Path]
) -> None:
    with_driver(fleet, packages)
    ran = bootstrap(fleet)
    assert ran.code == 1
    assert f"want the NVIDIA driver 590.*, found {OLD}; stop m first; a driver is never changed under" in ran.plain
    fleet.on(NODE, f"{NODE_SCRIPT} drop m")
    fleet.lab.set(NODE, faults=["foreign:2"])
    ran = bootstrap(fleet)
    assert ran.code == 1
    assert "stop process 1 (python3) first" in ran.plain
    fleet.lab.set(NODE, faults=["driver-mismatch"])
    fleet.on(NODE, "(setsid tail -f /dev/nvidia-uvm >/dev/null 2>&1 </dev/null & echo $! >/run/uses); sleep 0.3")
    ran = bootstrap(fleet)
    assert ran.code == 1
    assert "Driver/library version mismatch" in ran.plain and re.search(r"stop process \d+ \(tail\) first", ran.plain)
    fleet.on(NODE, "kill $(cat /run/uses)")
    fleet.lab.set(NODE, clear=True)


def test_an_engine_that_is_started_while_packages_are_installed_keeps_its_driver(fleet: RolloutSite) -> None:
    fleet.on(
        NODE,
        "echo 'APT::Update::Pre-Invoke {\"setsid tail -f /dev/nvidia-uvm >/dev/null 2>&1 & sleep 1\";};'"
        " >/etc/apt/apt.conf.d/99test",
    )
    ran = bootstrap(fleet)
    fleet.on(NODE, "rm /etc/apt/apt.conf.d/99test; pkill -x tail")
    assert ran.code == 1, ran.out
    assert re.search(r"want no process that has a GPU open, found \d+ \(tail\); stop it first", ran.plain), ran.out
    assert DRIVER not in fleet.on(NODE, "dpkg-query -W -f '${Package} '")


def test_a_driver_is_installed_and_held_and_its_reboot_is_said(fleet: RolloutSite) -> None:
    ran = bootstrap(fleet, "--dry", "--diff")
    assert ran.code == 0, ran.out
    assert f"Install the driver: {DRIVER}=590.*" in ran.plain
    assert "Reboot for the driver (only with --data reboot=true)" in ran.plain
    assert '+ Unattended-Upgrade::Package-Blacklist { "nvidia-(?!container' in ran.plain
    ran = bootstrap(fleet)
    assert ran.code == 0, ran.out
    assert DRIVER in fleet.on(NODE, "apt-mark showhold")
    assert "linux-(modules" in fleet.on(NODE, "apt-config dump Unattended-Upgrade::Package-Blacklist")
    boot = fleet.on(NODE, "cat /proc/sys/kernel/random/boot_id; ps -o lstart= -p 1")
    ran = bootstrap(fleet)
    assert ran.code == 0, ran.out
    assert f"{DRIVER} is installed, and the driver tells: {OLD}; it needs a reboot" in ran.plain
    assert fleet.on(NODE, "cat /proc/sys/kernel/random/boot_id; ps -o lstart= -p 1") == boot


def test_a_reboot_is_done_where_it_is_asked_for_and_the_new_driver_gets_its_specification(fleet: RolloutSite) -> None:
    ran = bootstrap(fleet, "-y", "--data", "reboot=true")
    assert ran.code == 0, ran.out
    assert NEW in fleet.on(NODE, "nvidia-smi --query-gpu=driver_version --format=csv,noheader")
    assert f"driver-version: {NEW}" in fleet.on(NODE, "cat /etc/cdi/nvidia.yaml")
    assert fleet.on(NODE, "cat /var/lib/vllm-fleet/lock 2>/dev/null || true") == ""
    assert "Nothing to do" in bootstrap(fleet).plain


@pytest.mark.parametrize(
    ("system", "told"),
    [
        (("debian", "12"), "Nothing to do"),
        (("ubuntu", "22.04"), "Nothing to do"),
        (("ubuntu", "24.04"), "Nothing to do"),
        (("debian", "7"), "want debian 12, debian 13, ubuntu 22.04, ubuntu 24.04, found debian 7"),
    ],
    ids=["debian-12", "ubuntu-22.04", "ubuntu-24.04", "debian-7"],
)
def test_a_system_is_known_by_its_os_release(fleet: RolloutSite, system: tuple[str, str], told: str) -> None:
    text = f'ID={system[0]}\\nVERSION_ID="{system[1]}"\\n'
    fleet.on(NODE, f"cd /etc; cp -P os-release os-release.kept; rm os-release; printf '{text}' >os-release")
    try:
        assert told in bootstrap(fleet).plain
    finally:
        fleet.on(NODE, "mv -f /etc/os-release.kept /etc/os-release")
