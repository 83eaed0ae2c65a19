"""Labs for tests. They need root on Linux: elsewhere these tests are skipped with the reason, on CI they fail."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rollout_site import RolloutSite
from tiny_service import TinyHost

from fleet.releases.command import NODE_SCRIPT, STATE
from lab import host
from lab.lab import Lab

# Two checkouts that test at the same time on one machine: give one another name. Each worker has a lab of its own.
SHARED = "-".join(filter(None, (os.environ.get("VLLM_FLEET_TEST_LAB", "test"), os.environ.get("PYTEST_XDIST_WORKER"))))


@pytest.fixture(scope="session")
def fit() -> None:
    """Skip, or fail on CI, where this machine cannot boot hosts."""
    reason = host.unfit()
    if reason and os.environ.get("CI") == "true":
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def lab(fit: None) -> Iterator[Lab]:
    """Three hosts, a1, h1 and l1, for the whole session; a test leaves them as it found them.

    `lab.replace(name)` boots a fresh host in a second where a test cannot tidy up. Another session on this machine
    waits until this one is over. VLLM_FLEET_KEEP_LAB=1 keeps the hosts, to look at them after a failure.
    """
    host.RUN.mkdir(exist_ok=True)
    with open(host.RUN / f".{SHARED}.session", "w") as session:
        fcntl.flock(session, fcntl.LOCK_EX)
        shared = Lab(SHARED, 3)
        shared.up()
        yield shared
        if not os.environ.get("VLLM_FLEET_KEEP_LAB"):
            shared.down()


@pytest.fixture
def own_lab(fit: None) -> Iterator[Callable[[int], Lab]]:
    """A lab of the test's own, to be broken: `own_lab(2)` has two hosts and is not up; it is ended at the end."""
    made: list[Lab] = []

    def make(nodes: int) -> Lab:
        made.append(Lab(f"{SHARED}-own", nodes))
        return made[-1]

    yield make
    for one in made:
        one.down()


def _bare(site: RolloutSite) -> None:
    """No service of ours on the hosts of a site, no lock, no fault: files of tests for single hosts leave theirs."""
    for name in site.nodes:
        site.lab.set(name, clear=True)
        site.fault(name)
        drop = f'for s in $(ls {STATE}); do [ -d {STATE}/$s ] && {NODE_SCRIPT} drop "$s"; done; rm -f {STATE}/lock'
        site.lab.ssh(name, drop)


QUICK = ("completion",)
"""The proof of services where it is not what a test is about: the default one asks eighty times and more."""


@contextmanager
def fresh_site(
    lab: Lab, folder: Path, nodes: tuple[str, ...] = ("a1", "h1", "l1"), proof: tuple[str, ...] | None = QUICK
) -> Iterator[RolloutSite]:
    """A site on bare hosts of the lab; what it rolled out is dropped at the end, and faults are cleared."""
    made = RolloutSite(lab, folder, nodes, proof=proof)
    _bare(made)
    try:
        yield made
    finally:
        _bare(made)


def _proof(request: pytest.FixtureRequest) -> tuple[str, ...] | None:
    """A file says PROOF where it is about the proof; None is the default one."""
    found: tuple[str, ...] | None = getattr(request.module, "PROOF", QUICK)
    return found


@pytest.fixture
def site(lab: Lab, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RolloutSite]:
    """A site of one test's own."""
    with fresh_site(lab, tmp_path / "site", proof=_proof(request)) as made:
        yield made


@pytest.fixture(scope="module")
def shared_site(
    lab: Lab, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[RolloutSite]:
    """A site that the tests of one file share, in their order. Not together with `site`: both are on the same hosts."""
    with fresh_site(lab, tmp_path_factory.mktemp("site"), proof=_proof(request)) as made:
        yield made


@pytest.fixture(scope="module", name="host")
def host_with_script(lab: Lab) -> TinyHost:
    """A host with the node script in place."""
    found = TinyHost(lab, lab.nodes[0].name)
    found.install()
    return found
