"""How the node's own script sees that a host of an engine is there, or gone; tests/lab shows what it does then."""

import shutil
import socket
import subprocess
import time
from contextlib import closing

import pytest

from lab.standin.process import PROJECT

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("bash", "ss"))), reason="runs the node script's bash with ss"
)
FILES = ("10-ground.sh", "67-follow.sh", "70-health.sh")


def bash(*words: str) -> int:
    """What a function of the script answers."""
    source = "; ".join(f"source {PROJECT}/operations/node/{name}" for name in FILES)
    done = subprocess.run(["bash", "-c", f'{source}; "$@"', "bash", *words], capture_output=True, timeout=30)
    return done.returncode


def listener(host: str = "127.0.0.1") -> socket.socket:
    both = ":" in host
    return socket.create_server((host, 0), family=socket.AF_INET6 if both else socket.AF_INET, dualstack_ipv6=both)


def port_of(server: socket.socket) -> str:
    return str(server.getsockname()[1])


@pytest.mark.parametrize(("server", "client"), [("127.0.0.1", "127.0.0.1"), ("::", "127.0.0.1")])
def test_a_host_is_there_while_it_holds_its_connection(server: str, client: str) -> None:
    with closing(listener(server)) as head:
        port = port_of(head)
        assert bash("all_joined", port, client) == 1
        with closing(socket.create_connection((client, int(port)))):
            assert bash("all_joined", port, client) == 0
            assert bash("all_joined", port, client, "192.0.2.7") == 1, "one of two is not there"
            assert bash("all_joined", port, "127.0.0.11") == 1, "another address that begins alike"
        accepted, _ = head.accept()
        assert bash("all_joined", port, client) == 1, "the other end is closed"
        accepted.close()


def test_a_head_that_answers_one_that_does_not_and_one_that_nobody_knows_are_three() -> None:
    with closing(listener()) as head:
        assert bash("head_answers", port_of(head), "127.0.0.1") == 0
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert bash("head_answers", port_of(bound), "127.0.0.1") == 1
    assert bash("head_answers", "9", "no-such-host.invalid") == 2


def test_a_new_part_waits_until_the_old_head_is_gone() -> None:
    source = "; ".join(f"source {PROJECT}/operations/node/{name}" for name in FILES)
    with closing(listener()) as head:
        command = ["bash", "-c", f"{source}; verb_wait_gone {port_of(head)} 127.0.0.1"]
        waiting = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        time.sleep(0.5)
        assert waiting.poll() is None
    out, _ = waiting.communicate(timeout=10)
    assert waiting.returncode == 0 and "an engine still answers at 127.0.0.1" in out
