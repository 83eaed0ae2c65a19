"""The section `host`: what a node must be, merged over its layers, with the keys of its archives read."""

from pathlib import Path

from declare.groups import GroupFile, layers_of
from declare.located import Located
from declare.merge import merge
from declare.nodes import NodeFile, absolute
from declare.problem import DeclarationError
from declare.reader import bytes_of
from declare.validate import build
from fleet.nodes.host import HostDeclaration


def host_of(node: NodeFile, groups: dict[str, GroupFile], problems: list[str]) -> HostDeclaration:
    """What this node must be; what cannot be used is told in `problems`."""
    sections = (file.section("host") for file in layers_of(node, groups))
    merged = merge(section for section in sections if section is not None)
    if merged is None:
        return HostDeclaration()
    return build(HostDeclaration, _with_absolute_keys(merged), problems) or HostDeclaration()


def _with_absolute_keys(host: Located) -> Located:
    apt = host.get("apt")
    for name, source in apt.entries() if apt else ():
        key = source.get("key")
        if apt and key is not None and key.origin.file is not None:
            apt = apt.with_entry(name, source.with_entry("key", absolute(key, key.origin.file.parent)))
    return host.with_entry("apt", apt) if apt else host


def read_keys(host: HostDeclaration) -> dict[str, str]:
    """Archive -> text of its key; bytes that are no text as surrogates. DeclarationError where one is not a key."""
    keys = {}
    for name, source in host.apt.items():
        try:
            data = bytes_of(Path(source.key))
        except OSError as error:
            raise DeclarationError(
                [f"host.apt.{name}.key: want the key that signs it, found {source.key}: {error.strerror}"]
            ) from None
        if b"PRIVATE KEY" in data:
            raise DeclarationError([f"host.apt.{name}.key: want a public key, found a private one in {source.key}"])
        # An armoured key says so; a binary one begins with a public-key packet (RFC 9580, 4.2).
        if not data.startswith(b"-----BEGIN PGP PUBLIC KEY") and data[:1] not in (b"\x98", b"\x99", b"\xc6"):
            raise DeclarationError(
                [f"host.apt.{name}.key: want an OpenPGP public key, found other bytes in {source.key}"]
            )
        keys[name] = data.decode("utf-8", "surrogateescape")
    return keys
