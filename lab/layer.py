"""The layer between the installed Debian and a host's own files: what all hosts of a lab share.

It is lab/layer/ (sshd, podman, nvidia-smi), the recordings and the models, the controller's key, and masks for what
costs every boot of every host processor time and does nothing here. It is laid out at each `up`, so that a change
needs no new installation.
"""

import shutil
from pathlib import Path

from lab import checkpoints

MASKED_UNITS = (
    *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer", "e2scrub_all.timer"),
    *("systemd-tmpfiles-clean.timer", "podman-auto-update.timer", "podman-restart.service", "e2scrub_reap.service"),
    *("netavark-dhcp-proxy.socket", "netavark-dhcp-proxy.service", "netavark-firewalld-reload.service"),
    *("podman-clean-transient.service", "getty.target", "console-getty.service", "systemd-logind.service"),
    *("ldconfig.service", "systemd-journal-catalog-update.service", "systemd-update-done.service"),
    *("systemd-sysusers.service", "systemd-firstboot.service", "systemd-machine-id-commit.service"),
    *("systemd-journal-flush.service", "systemd-remount-fs.service", "systemd-pstore.service"),
    *("systemd-tmpfiles-setup-dev-early.service", "systemd-tmpfiles-setup-dev.service", "sshd-keygen.service"),
    *("systemd-ask-password-console.path", "systemd-ask-password-wall.path", "systemd-initctl.socket"),
    *("systemd-creds.socket", "systemd-sysext.socket", "systemd-hostnamed.socket", "systemd-pcrlock.socket"),
    *("run-lock.mount", "dev-hugepages.mount", "dev-mqueue.mount", "sys-fs-fuse-connections.mount"),
)
# Each takes about 8 ms at every boot and every daemon-reload. podman's (Quadlet) stays.
MASKED_GENERATORS = tuple(
    f"systemd-{name}-generator"
    for name in (
        *("debug", "fstab", "getty", "gpt-auto", "hibernate-resume", "rc-local", "run", "ssh"),
        *("system-update", "sysv", "tpm2", "bless-boot", "cryptsetup", "integritysetup", "veritysetup"),
    )
)


def lay_out(target: Path, authorized_key: str, old_sshd: bool = False) -> None:
    """Make the layer in `target`, which must not exist; all of it belongs to root, whoever owns the checkout.

    `old_sshd`: one before OpenSSH 9.8, which does not start where a word of its configuration is new to it.
    """
    source = Path(__file__).parent
    shutil.copytree(source / "layer", target, symlinks=True)
    shutil.copytree(source / "recordings", target / "usr/share/vllm-fleet-lab/recordings")
    shutil.copytree(source / "models", target / "srv/models")
    for config in sorted((target / "srv/models").glob("*/config.json")):
        checkpoints.write(config.parent)
    if old_sshd:
        file = target / "etc/ssh/sshd_config.d/10-lab.conf"
        file.write_text("".join(line for line in file.open() if not line.startswith("PerSourcePenalties")))
    _mask(target / "etc/systemd/system", MASKED_UNITS)
    _mask(target / "etc/systemd/system-generators", MASKED_GENERATORS)
    keys = target / "root/.ssh/authorized_keys"
    keys.parent.mkdir(parents=True)
    keys.write_text(f"{authorized_key}\n")
    _own_by_root(target)
    for private in (target / "root", keys.parent):
        private.chmod(0o700)


def _mask(folder: Path, names: tuple[str, ...]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).symlink_to("/dev/null")


def _own_by_root(target: Path) -> None:
    for path in [target, *target.rglob("*")]:
        if path.is_symlink():
            continue
        shutil.chown(path, "root", "root")
        executable = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o755 if executable else 0o644)
