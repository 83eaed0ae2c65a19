"""What the probe's bash asks of a GPU host: older drivers, processes on GPUs, the kernel's log."""

import shutil

import pytest

from facts.parse.frames import parse_frames
from facts.parse.gpus import FIELDS, parse_gpus
from facts.parse.kernel import parse_kernel
from fleet.nodes.nvidia import KernelLog, Nvidia
from fleet.nodes.request import ProbeRequest
from tests.facts.fake_node import FakeNode

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="runs the probe's bash")

ROW = "0, NVIDIA A100-SXM4-80GB, 00000000:07:00.0, 81920, {used}, 550.54.15, Disabled, 8.0, 31, 0, No"


@pytest.fixture
def node(tmp_path: object) -> FakeNode:
    return FakeNode(tmp_path)  # type: ignore[arg-type]


def gpus(node: FakeNode) -> Nvidia:
    answer, script = node.ask(ProbeRequest(), "gpus")
    section = parse_frames(answer, script.nonce)["gpus"]
    return parse_gpus(section.text, section.code)


def old_driver(*unknown: str, used: int = 4) -> str:
    """An nvidia-smi that refuses these fields one by one, as the real one does, and answers with `x` for all others."""
    refuse = "\n".join(
        f"""case ",$fields," in *,{name},*) echo 'Field "{name}" is not a valid field to query.'; exit 2 ;; esac"""
        for name in unknown
    )
    return f"""
for word; do case $word in
    --query-gpu=*) fields=${{word#*=}} ;;
    --query-compute-apps=*) echo '00000000:07:00.0, 77777777, python3, 29996'; exit 0 ;;
esac; done
{refuse}
row='{ROW.format(used=used)}' IFS=,
set -- $fields
shift 11
for field; do row+=', '${{field//clocks_throttle_reasons.active/0x1}}; done
echo "$row"
"""


def test_a_driver_that_knows_every_field_is_asked_once(node: FakeNode) -> None:
    node.program("nvidia-smi", old_driver())
    nvidia = gpus(node)
    assert nvidia.error is None and nvidia.missing_fields == ()
    assert set(nvidia.gpus[0].told) == set(FIELDS[9:])


def test_an_older_driver_is_asked_again_without_what_it_does_not_know(node: FakeNode) -> None:
    node.program("nvidia-smi", old_driver("gpu_recovery_action", "fabric.state", "fabric.status"))
    nvidia = gpus(node)
    assert nvidia.error is None and nvidia.driver == "550.54.15"
    assert set(nvidia.missing_fields) == {"gpu_recovery_action", "fabric.state", "fabric.status"}
    assert nvidia.gpus[0].told["pcie.link.width.max"] == "pcie.link.width.max"


def test_the_reasons_for_slow_clocks_are_asked_under_their_older_name(node: FakeNode) -> None:
    node.program("nvidia-smi", old_driver("clocks_event_reasons.active"))
    nvidia = gpus(node)
    assert nvidia.missing_fields == () and nvidia.gpus[0].told["clocks_event_reasons.active"] == "0x1"
    node.program("nvidia-smi", old_driver("clocks_event_reasons.active", "clocks_throttle_reasons.active"))
    assert gpus(node).missing_fields == ("clocks_event_reasons.active",)


def test_the_driver_s_version_is_asked_under_its_newer_name(node: FakeNode) -> None:
    node.program("nvidia-smi", old_driver("driver_version"))
    nvidia = gpus(node)
    assert (nvidia.driver, nvidia.error, nvidia.missing_fields) == ("550.54.15", None, ())
    node.program("nvidia-smi", old_driver("driver_version", "kmd_version"))
    assert gpus(node).gpus == () and gpus(node).error


def test_a_driver_that_refuses_what_every_driver_knows_is_an_error_and_no_endless_question(node: FakeNode) -> None:
    node.program("nvidia-smi", old_driver("index"))
    nvidia = gpus(node)
    assert nvidia.gpus == () and "not a valid field" in (nvidia.error or "")


def test_an_answer_without_an_end_of_line_does_not_swallow_what_comes_after_it(node: FakeNode) -> None:
    node.program("nvidia-smi", old_driver(used=30000).replace('echo "$row"', 'printf %s "$row"'))
    nvidia = gpus(node)
    assert nvidia.error is None and len(nvidia.gpus) == 1
    assert [process.pid for process in nvidia.processes] == [77777777]


def test_processes_are_asked_for_only_where_memory_is_in_use(node: FakeNode) -> None:
    node.program("nvidia-smi", old_driver(used=900))
    assert gpus(node).processes == ()
    node.program("nvidia-smi", old_driver(used=30000))
    (held,) = gpus(node).processes
    assert (held.pid, held.memory_mib, held.unit) == (77777777, 29996, None)


def test_a_tool_that_cannot_list_processes_is_an_error(node: FakeNode) -> None:
    refuses = "case $1 in --query-compute-apps=*) echo broken; exit 3 ;; esac"
    node.program("nvidia-smi", f"{refuses}\n{old_driver(used=30000)}")
    assert "exit 3: broken" in (gpus(node).error or "")


def kernel(node: FakeNode, text: str, code: int = 0) -> KernelLog:
    node.program("nvidia-smi", "exit 0")
    node.program("dmesg", f"cat <<'END'\n{text}END\nexit {code}")
    answer, script = node.ask(ProbeRequest(), "kernel")
    return parse_kernel(parse_frames(answer, script.nonce)["kernel"])


BOOT = "[    0.000000] Linux version 6.8.0\n"
XID = "[ 9312.5] NVRM: Xid (PCI:0000:07:00): 79, pid='<unknown>', name=w\xfcrker, GPU has fallen off the bus.\n"


def test_errors_of_the_driver_are_read_from_the_kernels_log(node: FakeNode) -> None:
    log = kernel(node, BOOT + "[    1.0] usb 1-1: new device\n" + XID)
    assert log.whole and log.error is None
    assert [(xid.bus, xid.code, xid.text) for xid in log.xids] == [
        ("0000:07:00", 79, "NVRM: Xid (PCI:0000:07:00): 79, pid='<unknown>', name=w")
    ]


def test_a_log_that_lost_its_beginning_says_so_and_keeps_its_first_line(node: FakeNode) -> None:
    log = kernel(node, XID)
    assert not log.whole and [xid.code for xid in log.xids] == [79]


def test_a_log_that_nobody_may_read_is_an_error(node: FakeNode) -> None:
    assert "not permitted" in (kernel(node, "dmesg: read kernel buffer failed: not permitted\n", 1).error or "")


def test_a_machine_without_nvidia_smi_has_no_errors_of_its_driver(node: FakeNode) -> None:
    if shutil.which("nvidia-smi"):
        pytest.skip("this machine has nvidia-smi")
    node.program("dmesg", "exit 1")
    answer, script = node.ask(ProbeRequest(), "kernel")
    assert parse_kernel(parse_frames(answer, script.nonce)["kernel"]) == KernelLog()
