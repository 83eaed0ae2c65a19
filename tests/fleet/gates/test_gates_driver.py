"""A driver that does not answer is told with what helps; what it logged since boot is not forgotten."""

import pytest

from fleet.nodes.node import NodeFacts, Runtime
from fleet.nodes.nvidia import KernelLog, Nvidia, Xid
from tests.fleet.builders import facts, fails, fleet_with, gpus, image, node, passes, warns

NO_GPUS = node(gpus={"count": 0, "model": "none", "memory_mib": 1}, nvlink_islands=(), numa=())


@pytest.mark.parametrize(
    ("said", "texts"),
    [
        (
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.124",
            ("the module that is loaded and the library differ", "NVML library version: 570.124", "reboot a1"),
        ),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", ("modprobe nvidia",)),
        ("No devices were found\nnvidia-smi ended with exit code 6", ("the driver sees no GPU",)),
        ("Failed to initialize NVML: Insufficient Permissions", ("device nodes of a1",)),
        ("bash: nvidia-smi: command not found", ("no driver is installed",)),
        ("nvidia-smi did not end", ("hangs",)),
        ("Failed to initialize NVML: Unknown Error", ("found Failed to initialize NVML: Unknown Error",)),
    ],
)
def test_a_driver_that_does_not_answer_is_told_word_for_word_with_what_helps(said: str, texts: tuple[str, ...]) -> None:
    fails("driver", fleet_with(told=facts(nvidia=Nvidia(error=said))), *texts)


def test_a_driver_that_answers_passes_and_a_node_without_gpus_needs_none() -> None:
    passes("driver", fleet_with())
    passes("driver", fleet_with(NO_GPUS, facts(nvidia=Nvidia(error="not found"))))
    fails("driver", fleet_with(told=facts(nvidia=Nvidia(gpus=gpus()))), "no version")


def logged(code: int, bus: str = "0000:03:00") -> KernelLog:
    return KernelLog(xids=(Xid(bus=bus, code=code, text=f"NVRM: Xid (PCI:{bus}): {code}, pid=7, name=python3"),))


@pytest.mark.parametrize("code", [48, 64, 74, 79, 95, 119, 120])
def test_an_error_after_which_a_gpu_must_be_reset_blocks(code: int) -> None:
    fails("xid", fleet_with(told=facts(kernel_log=logged(code))), f"Xid {code} of GPU 3", f"): {code}, pid=7")


def test_an_error_that_nobody_here_knows_blocks() -> None:
    fails("xid", fleet_with(told=facts(kernel_log=logged(977))), "Xid 977 of GPU 3: not known here")


@pytest.mark.parametrize("code", [13, 31, 43, 45, 63, 94])
def test_an_error_of_a_program_is_a_warning(code: int) -> None:
    warns("xid", fleet_with(told=facts(kernel_log=logged(code))), f"Xid {code} of GPU 3")


def test_an_error_of_a_gpu_that_is_gone_is_told_by_its_bus_id() -> None:
    fails("xid", fleet_with(told=facts(kernel_log=logged(79, "0000:9b:00"))), "Xid 79 of PCI 0000:9b:00")


def test_a_log_without_errors_passes_and_one_that_cannot_be_read_does_not() -> None:
    passes("xid", fleet_with())
    unread = KernelLog(error="ended with exit code 1: 'dmesg: read kernel buffer failed'")
    fails("xid", fleet_with(told=facts(kernel_log=unread)), "read kernel buffer failed")
    passes("xid", fleet_with(NO_GPUS, facts(nvidia=Nvidia(), kernel_log=unread)))


def with_cuda(version: str | None, driver: str | None = "570.86.15") -> NodeFacts:
    runtime = Runtime(name="podman", images=(image(cuda=version),))
    return facts(runtime=runtime, nvidia=Nvidia(gpus=gpus(), driver=driver))


def test_the_driver_is_new_enough_for_the_cuda_of_the_image() -> None:
    passes("cuda", fleet_with())
    passes("cuda", fleet_with(told=with_cuda("12.8.1", "610.57.04")))
    fails(
        "cuda", fleet_with(told=with_cuda("13.0.1")), "want driver 580 or later for CUDA 13.0.1, found driver 570.86.15"
    )
    warns("cuda", fleet_with(told=with_cuda("12.9.1")), "a driver that brings CUDA 12.9.1", "which brings 12.8")
    warns("cuda", fleet_with(told=with_cuda("12.4", "535.183.01")), "which brings 12.2")


def test_a_cuda_or_driver_that_is_not_known_is_not_passed() -> None:
    warns("cuda", fleet_with(told=with_cuda(None)), "no CUDA_VERSION in it")
    fails("cuda", fleet_with(told=with_cuda("14.0")), "found 14.0")
    fails("cuda", fleet_with(told=with_cuda("12.8", None)), "the driver's version, found nothing")
    fails("cuda", fleet_with(told=facts(runtime=Runtime(name="podman"))), "no such image on the node")
