"""A bare Debian 12 becomes a node too. To install its root file system takes a minute, once: `make test-systems`."""

import os
from collections.abc import Iterator

import pytest
from bootstrap_site import NODE, archive_for, bootstrap, declare, strip
from rollout_site import RolloutSite

from lab import rootfs
from lab.lab import Lab

SYSTEM = "debian-12"
pytestmark = [pytest.mark.lab, pytest.mark.systems]


@pytest.fixture(scope="module")
def fleet(fit: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RolloutSite]:
    name = f"{os.environ.get('VLLM_FLEET_TEST_LAB', 'test')}-d12"
    lab, folder = Lab(name, 1, system=SYSTEM), tmp_path_factory.mktemp("debian12")
    lab.up()
    try:
        site = RolloutSite(lab, folder / "site", (NODE,))
        site.write()
        with archive_for(lab, folder, rootfs.SYSTEMS[SYSTEM]) as (url, key):
            strip(site)
            declare(site, url, key)
            yield site
    finally:
        lab.down()


def test_a_bare_debian_12_becomes_a_node_and_the_second_run_has_nothing_to_do(fleet: RolloutSite) -> None:
    assert fleet.on(NODE, "type -P podman rsync curl nvidia-ctk chronyd || true") == ""
    ran = bootstrap(fleet)
    assert ran.code == 0, ran.out
    for look in (
        "podman --version | grep -F ' 4.3.' && rsync --version >/dev/null && id vllm",
        "systemctl is-active chrony && grep -q 'driver-version: ' /etc/cdi/nvidia.yaml",
        "systemctl is-enabled vllm-fleet-boot vllm-fleet-cdi",
    ):
        fleet.on(NODE, look)
    assert "Nothing to do" in bootstrap(fleet).plain
