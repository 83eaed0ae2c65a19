"""Secrets by reference, resolved on the controller. Values live in memory and in the payload that goes over SSH."""

import hashlib
import os
from pathlib import Path

from declare.reader import bytes_of
from fleet.declaration import SecretReference, ServiceDeclaration
from fleet.releases.systemd import QuotingError, environment_line


class SecretError(ValueError):
    """A secret that cannot be read. The text names the reference, never a value."""


def _read(service: str, name: str, reference: SecretReference) -> str:
    if reference.env is not None:
        value = os.environ.get(reference.env)
        if value is None:
            raise SecretError(
                f"secret {name} of {service}: want environment variable {reference.env}, found none; set it"
            )
        return value
    try:
        return bytes_of(Path(str(reference.file)).expanduser()).decode().replace("\r\n", "\n").rstrip("\n")
    except OSError as error:
        found = error.strerror or str(error)
    except UnicodeDecodeError:  # its text shows a byte
        found = "bytes that are no text"
    raise SecretError(f"secret {name} of {service}: want a readable text file {reference.file}, found {found}")


def resolve(service: ServiceDeclaration) -> dict[str, str]:
    """Name -> value of every secret of a service. Raises SecretError."""
    values = {name: _read(service.name, name, reference) for name, reference in sorted(service.secrets.items())}
    for name, value in values.items():
        try:
            environment_line(name, value)
        except QuotingError:
            raise SecretError(
                f"secret {name} of {service.name}: want text without control characters, found one; "
                "was its file written with CRLF line ends?"
            ) from None
        if not value:
            raise SecretError(f"secret {name} of {service.name}: want a value, found an empty text")
    return values


def digests(values: dict[str, str], key: str) -> dict[str, str]:
    """Name -> sha256(key + value), as the probe computes it on the node with this run's random key."""
    return {name: hashlib.sha256((key + value).encode()).hexdigest() for name, value in values.items()}
