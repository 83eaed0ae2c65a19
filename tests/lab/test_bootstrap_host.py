"""From a bare host to a served completion: bootstrap, deliver, deploy, each twice, on real hosts of the lab.

The host is made bare by purging what the lab installs. Debian's own packages are downloaded by this machine's apt, the
NVIDIA ones are built here; both are served from an archive that the test signs. GPUs are the lab's recordings.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from apt_archive import NVIDIA_CTK, Signer, build, index, served
from delivery_site import TARGET, make_checkpoint
from rollout_site import BIN, Ran, RolloutSite

from lab import rootfs
from lab.lab import Lab
from lab.rootfs import SUITE, _own_mirror
from lab.standin.archive import archive
from lab.standin.image import build as build_image

pytestmark = pytest.mark.lab
NODE = "a1"
BARE = ("podman", "conmon", "crun", "netavark", "aardvark-dns", "catatonit", "rsync")
WANTED = ("podman", "rsync", "chrony")
VERSION = "0.30.0"


def download(status: str, into: Path) -> None:
    """Debian's packages of the hosts' own suite, resolved against what a bare host has, by this machine's apt."""
    state = into / ".apt"
    for name in ("lists/partial", "archives/partial", "etc"):
        (state / name).mkdir(parents=True)
    (state / "status").write_text(status)
    source = f"deb [signed-by={rootfs.KEYRING}] {_own_mirror() or 'http://deb.debian.org/debian'} {SUITE} main\n"
    (state / "etc/sources.list").write_text(source)
    options = {
        "Dir::State": state,
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state,
        "Dir::Cache::archives": state / "archives",
        "Dir::Etc::sourcelist": state / "etc/sources.list",
        "Dir::Etc::sourceparts": "-",
        "APT::Sandbox::User": "root",
        "APT::Install-Recommends": "false",
        "Acquire::Languages": "none",
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    for command in (["update"], ["install", "--download-only", "--yes", *WANTED]):
        done = subprocess.run(["apt-get", *words, *command], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"this machine's apt cannot download packages of {SUITE}: {done.stderr.strip()[-300:]}")
    for package in (state / "archives").glob("*.deb"):
        shutil.move(package, into / package.name.replace("%3a", "_"))
    shutil.rmtree(state)


@pytest.fixture(scope="module")
def packages(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """URL of the archive and the file of its key."""
    base = tmp_path_factory.mktemp("apt")
    folder = base / "archive"
    folder.mkdir()
    purge = f"systemctl stop podman.socket 2>/dev/null; apt-get purge --yes {' '.join(BARE)}"
    assert lab.ssh(NODE, purge).returncode == 0
    download(lab.ssh(NODE, "cat /var/lib/dpkg/status").stdout, folder)
    build(base, "nvidia-container-toolkit", "1.17.8-1", {"usr/bin/nvidia-ctk": NVIDIA_CTK})
    build(base, "nvidia-container-toolkit", "1.99.0-1", {"usr/bin/nvidia-ctk": "#!/bin/sh\nexit 1\n"})
    for package in base.glob("*.deb"):
        shutil.move(package, folder / package.name)
    index(folder)
    signer = Signer(base / "gpg")
    signer.sign(folder)
    with served(lab, folder) as url:
        yield url, signer.public(base / "key.asc")


@pytest.fixture(scope="module")
def fleet(lab: Lab, packages: tuple[str, Path], shared_site: RolloutSite) -> RolloutSite:
    """One bare host, and all that it is to become declared."""
    url, key = packages
    shared_site.nodes = (NODE,)
    for path in shared_site.fleet.glob("*.yaml"):
        if path.stem != NODE:
            path.unlink()
    shared_site.on(NODE, f"mkdir -p {Path(CHRONY).parent}; printf '{CHRONY_TEXT}' >{CHRONY}")
    bare = "rm -rf /usr/local/lib/vllm-fleet /etc/systemd/system/vllm-fleet-* /etc/systemd/system/*/vllm-fleet-*"
    shared_site.on(NODE, f"{bare} /etc/cdi/nvidia.yaml /etc/apt/sources.list.d/* /etc/apt/sources.list")
    shared_site.on(NODE, "systemctl daemon-reload")
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


CHRONY = "/etc/systemd/system/chrony.service.d/lab.conf"
"""A lab host may not set the machine's clock, and chrony's own unit does not even start there: so it only watches."""
CHRONY_TEXT = (
    "[Unit]\\nConditionCapability=\\n[Service]\\nType=exec\\nExecStart=\\nExecStart=!/usr/sbin/chronyd -d -x\\n"
)


def declare(site: RolloutSite, url: str, key: Path, **more: object) -> None:
    data = site.fleet / "group_data/all.yaml"
    pin = {"*": "*"} | {"nvidia-container-toolkit": "1.17.*"}
    apt = {"test": {"url": url, "suite": "./", "key": str(key), "pin": pin}}
    host = {"apt": apt, "user": "vllm", "folders": ["/srv/models", "/srv/own"], **more}
    data.write_text(yaml.safe_dump(yaml.safe_load(data.read_text()) | {"host": host}))


def bootstrap(site: RolloutSite, *words: str) -> Ran:
    return site.pyinfra("bootstrap.py", *(words or ("-y",)), timeout=300)


def test_a_dry_run_shows_every_step_and_the_files_and_changes_nothing(fleet: RolloutSite) -> None:
    ran = bootstrap(fleet, "--dry", "--diff")
    assert ran.code == 0, ran.out
    for told in (
        "Install rsync, podman, nvidia-container-toolkit, chrony",
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
    other = Signer(tmp_path / "gpg").public(tmp_path / "other.asc")
    declare(fleet, packages[0], other, packages=["never-there"])
    ran = bootstrap(fleet)
    assert ran.code == 1
    assert "never-there" not in fleet.on(NODE, "dpkg-query -W -f '${Package} '")
    declare(fleet, *packages)
    bootstrap(fleet)


def test_another_system_is_refused_with_what_is_supported(fleet: RolloutSite) -> None:
    fleet.on(
        NODE,
        "cd /etc; cp -L os-release os-release.kept; rm os-release; sed s/13/7/ os-release.kept >os-release",
    )
    try:
        ran = bootstrap(fleet)
        assert ran.code == 1
        assert "want debian 12, debian 13, ubuntu 22.04, ubuntu 24.04, found debian 7" in ran.plain
    finally:
        fleet.on(NODE, "mv -f /etc/os-release.kept /etc/os-release")
        fleet.lab.replace(NODE)
