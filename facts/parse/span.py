"""The section `span`: what a node knows of those with which it runs an engine."""

import ipaddress
import re
from collections.abc import Sequence

from facts.parse.frames import Section
from facts.parse.refusal import quoted
from fleet.nodes.node import Peer
from fleet.nodes.request import PeerRequest

_WAY = re.compile(r"\bdev (\S+).*?\bsrc (\S+)")
_WORDS = ("resolved", "route", "answer")


def parse_span(section: Section, wanted: Sequence[PeerRequest]) -> tuple[tuple[Peer, ...], str | None]:
    """What was told of each wanted peer, and the reason where that is not whole."""
    told: dict[tuple[str, str], dict[str, str]] = {}
    here: dict[str, str] = {}
    for line in section.text.splitlines():
        word, _, value = line.partition(" ")
        if word == "peer":
            name, _, port = value.partition(" ")
            here = told.setdefault((name, port), {})
        elif word in _WORDS:
            here[word] = value
        elif line.strip():
            here["odd"] = line
    missing = [peer.name for peer in wanted if (peer.name, str(peer.port)) not in told]
    error = section.failure or (f"nothing was told of {', '.join(missing)}" if missing else None)
    known = (peer for peer in wanted if (peer.name, str(peer.port)) in told)
    return tuple(_peer(peer, told[peer.name, str(peer.port)]) for peer in known), error


def _peer(wanted: PeerRequest, told: dict[str, str]) -> Peer:
    resolved, route = _address(told.get("resolved", "")), told.get("route", "")
    way = _WAY.search(route)
    source = _address(way[2]) if way else None
    wrong = None
    if "odd" in told:
        wrong = f"want a line about {wanted.name}, found {quoted(told['odd'])}"
    elif resolved is None:
        wrong = f"want an address for {wanted.address}, found {quoted(told.get('resolved', ''))}"
    elif way is None or source is None:
        wrong = f"want the way to {resolved}, found {quoted(route)}"
    return Peer(
        name=wanted.name,
        port=wanted.port,
        resolved=resolved,
        interface=way[1] if way and source else None,
        source=source,
        answer=_answer(told.get("answer")),
        error=wrong,
    )


def _address(text: str) -> str | None:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None


def _answer(text: str | None) -> str | None:
    """bash says `bash: connect: Connection refused`."""
    if text is None or text == "accepted":
        return text
    reason = text.rpartition(": ")[2]
    return "refused" if reason == "Connection refused" else reason
