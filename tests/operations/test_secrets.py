"""Secrets are read where the rollout runs. What cannot be one is refused by its reference, and never shown."""

import os
from pathlib import Path

import pytest

from fleet.declaration import SecretReference
from operations.secrets import SecretError, resolve
from tests.fleet.builders import service

VALUE = "hunter2-hunter2"


def resolved(path: Path) -> dict[str, str]:
    return resolve(service().model_copy(update={"secrets": {"KEY": SecretReference(file=str(path))}}))


@pytest.mark.parametrize("written", [VALUE, f"{VALUE}\n", f"{VALUE}\r\n"])
def test_the_line_end_of_a_secrets_file_is_no_part_of_it(written: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(written.encode())
    assert resolved(tmp_path / "key") == {"KEY": VALUE}


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "key")
    with pytest.raises(SecretError, match=r"secret KEY of .*, found a pipe, a socket or a device"):
        resolved(tmp_path / "key")


def test_a_device_without_an_end_is_refused() -> None:
    with pytest.raises(SecretError, match="found a pipe, a socket or a device"):
        resolved(Path("/dev/zero"))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "found an empty text"),
        (f"{VALUE}\0".encode(), "without control characters"),
        (f"{VALUE}\r{VALUE}".encode(), "without control characters"),
        (VALUE.encode() + b"\xff", "found bytes that are no text"),
    ],
)
def test_what_cannot_be_a_variable_is_refused_without_being_shown(content: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(SecretError, match=told) as refused:
        resolved(tmp_path / "key")
    assert "hunter2" not in str(refused.value) and "xff" not in str(refused.value)


@pytest.mark.parametrize("path", ["nothing", "."])
def test_a_secrets_file_that_is_not_there_is_named(path: str, tmp_path: Path) -> None:
    with pytest.raises(SecretError, match=f"want a readable text file {tmp_path}"):
        resolved(tmp_path / path)
