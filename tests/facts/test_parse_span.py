"""What a node knows of the others of its engine: by the probe's own bash on this machine, and as it is read."""

import shutil
import socket
from pathlib import Path

import pytest

from facts.parse.frames import Section, parse_frames
from facts.parse.span import parse_span
from fleet.nodes.node import Peer
from fleet.nodes.request import PeerRequest, ProbeRequest
from tests.facts.fake_node import FakeNode

A2 = PeerRequest(name="a2", address="192.0.2.2", port=29501)
WAY = "route 192.0.2.2 dev ens1 src 192.0.2.1 uid 0 \\    cache "
GOOD = f"peer a2 29501\nresolved 192.0.2.2\n{WAY}\nanswer bash: connect: Connection refused\n"


def read(text: str, code: int | None = 0, *more: PeerRequest) -> tuple[tuple[Peer, ...], str | None]:
    return parse_span(Section(text=text, code=code), (A2, *more))


def test_a_peer_that_answers_is_known_with_the_way_to_it() -> None:
    (peer,), error = read(GOOD)
    assert error is None and peer.error is None
    assert (peer.resolved, peer.interface, peer.source, peer.answer) == ("192.0.2.2", "ens1", "192.0.2.1", "refused")
    assert read(GOOD.replace("bash: connect: Connection refused", "accepted"))[0][0].answer == "accepted"


def test_what_stood_in_the_place_of_an_answer_is_told() -> None:
    answers = ("none within 3 s", "bash: connect: No route to host", "bash: connect: Connection timed out")
    found = [read(GOOD.replace("bash: connect: Connection refused", text))[0][0].answer for text in answers]
    assert found == ["none within 3 s", "No route to host", "Connection timed out"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("resolved 192.0.2.2", "resolved ", "want an address for 192.0.2.2, found ''"),
        (WAY, "route RTNETLINK answers: Network is unreachable", "want the way to 192.0.2.2, found 'RTNETLINK"),
        (WAY, "route bash: ip: command not found", "found 'bash: ip: command not found'"),
        (WAY, f"{WAY}\nsomething else", "want a line about a2, found 'something else'"),
    ],
)
def test_a_name_or_a_way_that_is_none_is_an_error_of_that_peer(old: str, new: str, words: str) -> None:
    (peer,), error = read(GOOD.replace(old, new))
    assert error is None and peer.error is not None and words in peer.error


def test_a_peer_that_nothing_was_told_of_is_an_error() -> None:
    other = PeerRequest(name="a3", address="192.0.2.3", port=29501)
    peers, error = read(GOOD, 0, other)
    assert [peer.name for peer in peers] == ["a2"] and error == "nothing was told of a3"
    assert read("", None)[1] is not None


@pytest.mark.skipif(not all(map(shutil.which, ("bash", "ip", "getent"))), reason="runs the probe's bash with ip")
def test_the_probe_asks_this_machine(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as open_port, socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # not listening: refused
        ports = (open_port.getsockname()[1], bound.getsockname()[1])
        asked = tuple(PeerRequest(name="self", address="localhost", port=port) for port in ports)
        request = ProbeRequest(peers=asked)
        answer, script = FakeNode(tmp_path).ask(request, "span")
    peers, error = parse_span(parse_frames(answer, script.nonce)["span"], asked)
    assert error is None and [peer.error for peer in peers] == [None, None]
    assert [peer.answer for peer in peers] == ["accepted", "refused"]
    assert {peer.interface for peer in peers} == {"lo"}
