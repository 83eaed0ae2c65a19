"""Replicas of a service are alike, enough of them, and meant for what they may run."""

from typing import Any

from fleet.gate import FleetView
from fleet.nodes.nvidia import Nvidia
from tests.fleet.builders import OLD_DIGEST, facts, fails, fleet, gpus, image, node, passes, service, view, warns


def two(driver: str = "570.86.15", declared: dict[str, Any] | None = None, **changes: Any) -> FleetView:
    """Two replicas of glm, where the second's node, driver or service is another."""
    told = facts(
        nvidia=Nvidia(gpus=gpus(), driver=driver), runtime={"name": "podman", "images": (image(), image(OLD_DIGEST))}
    )
    first = view(node(), service(policy=changes.get("policy", {})), told=facts())
    other = view(node(name="a2", **(declared or {})), service(**changes), told=told)
    return fleet(first, other)


OLD = {"image": {"name": "site/vllm:0.29.0", "digest": OLD_DIGEST, "engine": "0.29.0"}}


def test_replicas_run_one_image() -> None:
    passes("replicas-image", two())
    fails("replicas-image", two(**OLD), "found 0.29.0 (sha256:bbb", "on a2/glm")
    passes("replicas-image", two(**OLD, policy={"mixed": ["image"]}))


def test_replicas_run_on_one_kind_of_gpu() -> None:
    passes("replicas-gpus", two())
    h100 = {"gpus": {"count": 8, "model": "NVIDIA H100 80GB HBM3", "memory_mib": 81559}}
    warns(
        "replicas-gpus", two(declared=h100), "A100-SXM4-80GB 81920 MiB as on a1", "H100 80GB HBM3 81559 MiB on a2/glm"
    )
    passes("replicas-gpus", two(declared=h100, policy={"mixed": ["gpus"]}))


def test_replicas_have_one_driver_and_another_release_of_its_branch_is_a_warning() -> None:
    passes("replicas-driver", two())
    fails("replicas-driver", two(driver="550.54.15"), "want driver 570.86.15 as on a1, found 550.54.15 on a2/glm")
    warns("replicas-driver", two(driver="570.124.06"), "570.124.06")
    passes("replicas-driver", two(driver="550.54.15", policy={"mixed": ["driver"]}))


def test_a_driver_that_was_not_told_is_left_to_the_gate_that_says_so() -> None:
    silent = facts(nvidia=Nvidia(error="couldn't communicate"))
    passes(
        "replicas-driver", fleet(view(node(), service(), told=facts()), view(node(name="a2"), service(), told=silent))
    )
    fails("driver", fleet(view(node(name="a2"), service(), told=silent)), "no driver is loaded")


def test_a_service_is_on_as_many_nodes_as_its_policy_says() -> None:
    passes("replicas", fleet())
    passes("replicas", two(policy={"replicas": 2}))
    alone = fleet(view(node(), service(policy={"replicas": 2}), told=facts()))
    fails("replicas", alone, "want 2 nodes, found 1 (a1) on a1/glm")
    passes("replicas", alone.model_copy(update={"placed": frozenset({("a1", "glm"), ("b7", "glm")})}))


def test_more_requests_than_the_service_is_meant_for_are_a_warning() -> None:
    meant = {"target_concurrency": 24, "flags": {"--max-num-seqs": 16}}
    passes("concurrency", fleet())
    passes("concurrency", fleet(view(node(), service(**meant), told=facts())))
    both = fleet(view(node(), service(**meant), told=facts()), view(node(name="a2"), service(**meant), told=facts()))
    warns("concurrency", both, "want at most 24 requests at once, found 16 on each of 2 nodes = 32")
    passes("concurrency", fleet(view(node(), service(target_concurrency=24), told=facts())))
