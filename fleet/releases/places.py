"""Where things of ours lie on a node, and where what runs containers does."""

STATE = "/var/lib/vllm-fleet"
NODE_SCRIPT = "/usr/local/lib/vllm-fleet/node"
RUNTIMES = {"podman": "/usr/bin/podman", "docker": "/usr/bin/docker"}


def unit_name(service: str) -> str:
    """The systemd unit of a service."""
    return f"vllm-{service}.service"
