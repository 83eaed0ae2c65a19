"""The container runtime is there, and new enough for what a unit uses of it."""

from typing import Any

import pytest

from fleet.gate import FleetView
from tests.fleet.builders import deep, facts, fails, fleet_with, node, passes, warns


def said(error: str | None = None, runtime: str = "podman", **versions: str) -> FleetView:
    """a1 where the programs say this of their versions (dashes of names written as underscores)."""
    told = {name.replace("_", "-"): text for name, text in versions.items()}
    return fleet_with(node(runtime=runtime), facts(deep=deep(versions=told, versions_error=error)))


@pytest.mark.parametrize("text", ["podman version 4.1.0", "podman version 5.4.2", "podman version 5.0.0-dev"])
def test_a_podman_that_knows_cdi_passes(text: str) -> None:
    passes("runtime-version", said(podman=text))


@pytest.mark.parametrize("text", ["podman version 3.0.1", "podman version 4.0.3"])
def test_a_podman_before_cdi_is_refused(text: str) -> None:
    fails("runtime-version", said(podman=text), f"want podman 4.1 or later, found {text.split()[-1]} on a1")


def test_a_docker_that_cannot_be_told_never_to_pull_is_refused() -> None:
    passes("runtime-version", said(runtime="docker", docker="Docker version 27.5.1, build 9f9e405"))
    old = said(runtime="docker", docker="Docker version 19.03.15, build 99e3ed8919")
    fails("runtime-version", old, "want docker 20.10 or later, found 19.03.15"[:35])


def test_a_version_that_is_not_understood_is_not_new_enough() -> None:
    fails("runtime-version", said(podman="podman version unknown"), "want the version of podman, found podman version")
    fails("runtime-version", said(error="want versions, found 'podman: exit 125'"), "podman: exit 125")
    fails("runtime-version", said(), "found no such program")


TOOLKIT = "NVIDIA Container Toolkit CLI version "


@pytest.mark.parametrize("changes", [{"nvidia_ctk": f"{TOOLKIT}1.17.8"}, {"nvidia_ctk": f"{TOOLKIT}1.18.0"}, {}])
def test_a_toolkit_that_is_new_or_not_there_passes(changes: dict[str, Any]) -> None:
    passes("toolkit-version", said(podman="podman version 5.4.2", **changes))


def test_a_toolkit_through_which_an_image_takes_over_the_host_is_a_warning() -> None:
    warns(
        "toolkit-version", said(nvidia_ctk=f"{TOOLKIT}1.17.4"), "want nvidia-container-toolkit 1.17.8", "found 1.17.4"
    )


def test_a_toolkit_that_cannot_write_a_specification_is_refused() -> None:
    fails("toolkit-version", said(nvidia_ctk=f"{TOOLKIT}1.11.0"), "want nvidia-container-toolkit 1.12 or later")
    fails("toolkit-version", said(nvidia_ctk="wings"), "want the version of nvidia-ctk, found wings")
    fails("toolkit-version", said(error="want versions, found 'nvidia-ctk: killed'"), "nvidia-ctk: killed")
