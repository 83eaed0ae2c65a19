"""podman on a lab host: the stand-in engine as a systemd unit, reached from this machine."""

import json
import time
from collections.abc import Iterator

import httpx
import pytest

from lab import images
from lab.lab import Lab

pytestmark = pytest.mark.lab

# KillMode=mixed: with the default, systemd kills the clean-up that conmon has just started, and the container's record
# stays behind in about every third stop.
UNIT = """[Service]
Type=exec
KillMode=mixed
LimitNOFILE=1048576
LimitMEMLOCK=infinity
ExecStart=/usr/bin/podman run --rm --replace --name=engine --pull=never --network=host --ipc=host --ulimit=host \\
  --cgroups={cgroups} --log-driver=passthrough --device=nvidia.com/gpu=0 --volume=/srv/models:/srv/models:ro \\
  {image} serve /srv/models/qwen-72b --host 0.0.0.0 --port 8000
Restart=on-failure
"""


@pytest.fixture(scope="module")
def image(lab: Lab) -> str:
    """The image by digest, as `up` left it in the checkout."""
    return f"{images.NAME}@{(lab.folder / 'image-0.30.0.digest').read_text().strip()}"


@pytest.fixture(autouse=True)
def tidy(lab: Lab) -> Iterator[None]:
    """No unit and no container stays on the host."""
    yield
    lab.ssh("a1", "systemctl kill -s KILL engine; rm -f /etc/systemd/system/engine.service; systemctl daemon-reload")
    lab.ssh("a1", "podman rm --all --force; systemctl reset-failed")


def start(lab: Lab, image: str, cgroups: str) -> None:
    unit = UNIT.format(image=image, cgroups=cgroups)
    told = lab.ssh(
        "a1", "cat > /etc/systemd/system/engine.service; systemctl daemon-reload; systemctl start engine", input=unit
    )
    assert told.returncode == 0, told.stderr


def wait_for_health(lab: Lab) -> httpx.Client:
    base = f"http://{lab.node('a1').address}:8000"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"{base}/health", timeout=5).status_code == 200:
                return httpx.Client(base_url=base, timeout=5)
        except httpx.TransportError:
            time.sleep(0.1)
    raise AssertionError(lab.ssh("a1", "journalctl -u engine --no-pager -n 30").stdout)


@pytest.mark.parametrize("cgroups", ["split", "enabled", "no-conmon", "disabled"])
def test_a_unit_runs_the_engine_by_digest_and_ends_it(lab: Lab, image: str, cgroups: str) -> None:
    start(lab, image, cgroups)
    with wait_for_health(lab) as client:
        asked = {"model": "/srv/models/qwen-72b", "prompt": "one two", "max_tokens": 4}
        assert client.post("/v1/completions", json=asked).json()["choices"][0]["text"]
    pid = lab.ssh("a1", "podman inspect --format '{{.State.Pid}}' engine").stdout.strip()
    assert "NVIDIA_VISIBLE_DEVICES=0\0" in lab.ssh("a1", f"cat /proc/{pid}/environ").stdout
    assert lab.ssh("a1", "systemctl stop engine; systemctl is-active engine").stdout == "inactive\n"
    assert lab.ssh("a1", "podman ps --all --quiet; pgrep --full 'vllm serv[e]'").stdout == ""


def test_with_split_cgroups_nothing_of_a_killed_engine_stays(lab: Lab, image: str) -> None:
    start(lab, image, "split")
    wait_for_health(lab).close()
    tree = lab.ssh("a1", "systemctl show --property=ControlGroup --value engine").stdout.strip()
    inside = lab.ssh("a1", f"cat $(find /sys/fs/cgroup{tree} -name cgroup.procs) | wc -l").stdout
    assert int(inside) == 3  # podman, conmon and the engine: all of it in the unit's own cgroup
    before = lab.ssh("a1", "pgrep --full 'vllm serv[e].*0.0.0.0 --port'").stdout.split()
    lab.ssh("a1", "systemctl kill --signal=KILL engine")
    time.sleep(1)
    wait_for_health(lab).close()  # on-failure brought it back
    after = lab.ssh("a1", "pgrep --full 'vllm serv[e].*0.0.0.0 --port'").stdout.split()
    assert set(before).isdisjoint(after)


def test_every_host_has_the_images_under_one_digest_and_at_no_cost(lab: Lab) -> None:
    expected = {version: (lab.folder / f"image-{version}.digest").read_text().strip() for version in images.VERSIONS}
    assert len(set(expected.values())) == 2
    for found in lab.nodes:
        told = json.loads(lab.ssh(found.name, "podman images --format json").stdout)
        listed = [image for image in told if image["Names"][0].startswith(f"{images.NAME}:")]  # others: of other tests
        assert {image["Names"][0].rpartition(":")[2]: image["Digest"] for image in listed} == expected
        assert all(image["ReadOnly"] for image in listed)
        for digest in expected.values():
            assert lab.ssh(found.name, f"podman image exists {images.NAME}@{digest}").returncode == 0


def test_gpus_are_given_by_cdi_and_an_absent_one_is_refused(lab: Lab, image: str) -> None:
    run = "podman run --rm --pull=never --network=none --entrypoint=sh --device=nvidia.com/gpu={} {} -c set"
    assert "NVIDIA_VISIBLE_DEVICES='all'" in lab.ssh("l1", run.format("all", image)).stdout
    told = lab.ssh("l1", run.format("4", image))
    assert told.returncode != 0
    assert "unresolvable CDI devices nvidia.com/gpu=4" in told.stderr


def test_podman_writes_to_a_disk_of_the_host_own(lab: Lab, image: str) -> None:
    store = "podman info --format '{{.Store.GraphDriverName}} {{index .Store.GraphStatus \"Native Overlay Diff\"}}'"
    assert lab.ssh("a1", store).stdout.split() == ["overlay", "true"]
    made = "podman create --pull=never --name=mine --entrypoint=sh {} && podman ps --all --format '{{{{.Names}}}}'"
    assert lab.ssh("a1", made.format(image)).stdout.split()[-1] == "mine"
    assert lab.ssh("h1", "podman ps --all --quiet").stdout == ""
