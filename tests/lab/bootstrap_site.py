"""A host that is made bare, and all that it is to become: an archive of packages that the test builds and signs.

The host is made bare by purging what the lab installs. Debian's own packages are downloaded by this machine's apt, the
NVIDIA ones are built here; both are served from an archive that the test signs. GPUs are the lab's recordings.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from apt_archive import NVIDIA_CTK, Signer, build, index, served
from rollout_site import Ran, RolloutSite

from lab import rootfs
from lab.lab import Lab
from lab.rootfs import SUITE, _own_mirror

NODE = "a1"
BARE = ("podman", "conmon", "crun", "netavark", "aardvark-dns", "catatonit", "rsync")
WANTED = ("podman", "crun", "rsync", "curl", "chrony")


DRIVER = "nvidia-driver-590-server-open"
OLD, NEW = "580.95.05", "590.44.01"
NEW_SMI = f"""#!/bin/sh
# A driver that is installed runs from the next boot on: until then a file of the package lies in /run.
[ -e /run/old-driver ] && exec /usr/bin/nvidia-smi "$@"
/usr/bin/nvidia-smi "$@" | sed s/{OLD}/{NEW}/g
"""


def download(status: str, into: Path, suite: str, keyring: Path) -> None:
    """Debian's packages of the hosts' own suite, resolved against what a bare host has, by this machine's apt."""
    state = into / ".apt"
    for name in ("lists/partial", "archives/partial", "etc"):
        (state / name).mkdir(parents=True)
    (state / "status").write_text(status)
    source = f"deb [signed-by={keyring}] {_own_mirror() or 'http://deb.debian.org/debian'} {suite} main\n"
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
            pytest.skip(f"this machine's apt cannot download packages of {suite}: {done.stderr.strip()[-300:]}")
    for package in (state / "archives").glob("*.deb"):
        shutil.move(package, into / package.name.replace("%3a", "_"))
    shutil.rmtree(state)


@contextmanager
def archive_for(lab: Lab, base: Path, system: rootfs.System | None = None) -> Iterator[tuple[str, Path]]:
    """URL of the archive and the file of its key; the host is bare meanwhile, and another one afterwards."""
    folder = base / "archive"
    folder.mkdir()
    if system is None:
        purge = f"systemctl stop podman.socket 2>/dev/null; apt-get purge --yes {' '.join(BARE)}"
        assert lab.ssh(NODE, purge).returncode == 0
    suite, keyring = system or (SUITE, rootfs.KEYRING)
    download(lab.ssh(NODE, "cat /var/lib/dpkg/status").stdout, folder, suite, keyring)
    build(base, "nvidia-container-toolkit", "1.17.8-1", {"usr/bin/nvidia-ctk": NVIDIA_CTK})
    build(base, "nvidia-container-toolkit", "1.99.0-1", {"usr/bin/nvidia-ctk": "#!/bin/sh\nexit 1\n"})
    build(base, DRIVER, f"{NEW}-0ubuntu1", {"usr/local/bin/nvidia-smi": NEW_SMI, "run/old-driver": ""})
    build(base, "unattended-upgrades", "2.9-1", {"usr/bin/unattended-upgrade": "#!/bin/sh\n"})
    for package in base.glob("*.deb"):
        shutil.move(package, folder / package.name)
    index(folder)
    signer = Signer(base / "gpg")
    signer.sign(folder)
    try:
        with served(lab, folder) as url:
            yield url, signer.public(base / "key.asc")
    finally:
        signer.close()
        lab.replace(NODE)


CHRONY = "/etc/systemd/system/chrony.service.d/lab.conf"
"""A lab host may not set the machine's clock, and chrony's own unit does not even start there: so it only watches."""
CHRONY_TEXT = (
    "[Unit]\\nConditionCapability=\\n[Service]\\nType=exec\\nExecStart=\\nExecStart=!/usr/sbin/chronyd -d -x\\n"
)


def strip(site: RolloutSite) -> None:
    """Only this host is declared, and nothing of ours is there."""
    site.nodes = (NODE,)
    for path in site.fleet.glob("*.yaml"):
        if path.stem != NODE:
            path.unlink()
    site.on(NODE, f"mkdir -p {Path(CHRONY).parent}; printf '{CHRONY_TEXT}' >{CHRONY}")
    bare = "rm -rf /usr/local/lib/vllm-fleet /etc/systemd/system/vllm-fleet-* /etc/systemd/system/*/vllm-fleet-*"
    site.on(NODE, f"{bare} /etc/cdi/nvidia.yaml /etc/apt/sources.list.d/* /etc/apt/sources.list")
    site.on(NODE, "systemctl daemon-reload")


def declare(site: RolloutSite, url: str, key: Path, **more: object) -> None:
    data = site.fleet / "group_data/all.yaml"
    pin = {"*": "*"} | {"nvidia-container-toolkit": "1.17.*"}
    apt = {"test": {"url": url, "suite": "./", "key": str(key), "pin": pin}}
    host = {"apt": apt, "user": "vllm", "folders": ["/srv/models", "/srv/own"], **more}
    data.write_text(yaml.safe_dump(yaml.safe_load(data.read_text()) | {"host": host}))


def bootstrap(site: RolloutSite, *words: str) -> Ran:
    return site.pyinfra("bootstrap.py", *(words or ("-y",)), timeout=300)
