"""Who holds a node's lock, as the lock's line names it."""

import getpass
import os
import socket


def holder(pid: int | None = None) -> str:
    """Who runs this, for other people's eyes: user, machine, process. `pid`: of another process of this user."""
    return f"{getpass.getuser()}@{socket.gethostname()} pid {pid or os.getpid()}"
