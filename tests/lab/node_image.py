"""Everything of a node that a look at it must leave alone, as one text that can be compared."""

from lab.lab import Lab

LEFT_OUT = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/log")
"""Kernel, temporary and log folders. With them the records of logins, which are an SSH connection's own trace."""
LOGINS = ("/var/lib/wtmpdb", "/var/lib/lastlog", "/var/lib/pam_lastlog2")

_SCRIPT = """
set -e
prune="$(printf -- '-path %s -o ' LEFT_OUT)"
# Of what is larger than 1 GiB (the lab's checkpoints, which are empty) only size and times are compared.
find / \\( ${prune% -o } \\) -prune -o -printf '%p %y %m %U:%G %s %T@ %l\\n' | sort
find / \\( ${prune% -o } \\) -prune -o -type f ! -size +1048576k -print0 | sort -z | xargs -0 sha256sum
systemctl show --property=Id,MainPID,ActiveState,UnitFileState,NRestarts,InvocationID 'vllm-*'
systemctl list-units --all --plain --no-legend 'vllm-*'
[ -e /var/lib/containers/storage/db.sql ] || exit 0  # podman was never run here, and would lay out its storage now
podman images --digests --no-trunc --quiet
podman ps --all --no-trunc --format '{{.ID}} {{.Image}} {{.State}} {{.StartedAt}}'
"""


def image_of(lab: Lab, node: str) -> list[str]:
    """Path, kind, mode, owner, size, time and target of every file, the checksum of every content; units, processes,
    images and containers."""
    script = _SCRIPT.replace("LEFT_OUT", " ".join((*LEFT_OUT, *LOGINS)))
    done = lab.ssh(node, "bash -s", input=script, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def difference(before: list[str], after: list[str]) -> list[str]:
    """Lines of one that the other does not have."""
    old, new = set(before), set(after)
    return [f"- {line}" for line in before if line not in new] + [f"+ {line}" for line in after if line not in old]
