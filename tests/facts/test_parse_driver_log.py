"""The driver's errors in the kernel's log, and the NVLink ports: real outputs, and what is not understood."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.parse.frames import Section
from facts.parse.kernel import parse_kernel
from facts.parse.nvlinks import parse_nvlinks
from tests.facts.captures import CAPTURES, require_captures


def printed(text: str, code: int | None = 0) -> Section:
    return Section(text=text, code=code)


def test_a_real_log_of_a_gpu_whose_processor_hangs_is_one_xid_of_one_gpu() -> None:
    require_captures()
    text = (CAPTURES / "extra" / "x17_dmesg_xid119_gsp_timeout.txt").read_text()
    lines = "\n".join(line for line in text.splitlines() if "Xid (" in line)
    log = parse_kernel(printed(lines))
    assert log.error is None and log.whole
    assert [(xid.bus, xid.code) for xid in log.xids] == [("0000:9b:00", 119)]
    assert log.xids[0].text.startswith(
        "NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, Timeout after 6s"
    )


@pytest.mark.parametrize(
    ("line", "bus", "code"),
    [
        (
            "NVRM: Xid (PCI:0000:c9:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            "0000:c9:00",
            79,
        ),
        ("[1.5] NVRM: Xid (PCI:0000:4E:00): 48, pid=1, DBE (double bit error)", "0000:4e:00", 48),
        ("[Sun Feb 23 16:24:18 2025] NVRM: Xid (0000:9b:00): 13, Graphics Exception", "0000:9b:00", 13),
        ("NVRM: Xid (PCI:0000:9b:00 GPU-I:05): 94, Contained", "0000:9b:00", 94),
    ],
)
def test_an_xid_is_read_in_every_form_that_drivers_write(line: str, bus: str, code: int) -> None:
    assert [(xid.bus, xid.code) for xid in parse_kernel(printed(line)).xids] == [(bus, code)]


def test_a_log_that_was_cut_or_could_not_be_read_says_so() -> None:
    assert parse_kernel(printed("")).error is None
    assert not parse_kernel(printed("cut\n")).whole
    refused = parse_kernel(printed("dmesg: read kernel buffer failed: Operation not permitted\n", 1))
    assert "Operation not permitted" in (refused.error or "")
    assert "did not end" in (parse_kernel(printed("", None)).error or "")


def test_an_xid_in_a_form_that_nobody_knows_is_not_passed_over() -> None:
    assert "Xid (somewhere)" in (parse_kernel(printed("NVRM: Xid (somewhere): 79, gone")).error or "")


def blocks() -> dict[str, str]:
    """Real outputs of `nvidia-smi nvlink -s`, by the name that stands before each."""
    text = (CAPTURES / "extra" / "x07_nvlink_s.txt").read_text()
    parts = [part.partition("\n") for part in text.split("--- ")[1:]]
    body = {name.strip(): rest.partition("$ nvidia-smi nvlink -s\n")[2] or rest for name, _, rest in parts}
    return {name: text.partition("[cut here]")[0] for name, text in body.items()}


@pytest.mark.parametrize(
    ("name", "up", "said"),
    [
        ("linux-x86_64__nvidia-h200__590.48.01.txt", 18, None),
        ("linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01.txt", 18, None),
        ("linux-x86_64__nvidia-l40s__595.80.txt", 0, "Device does not have or support Nvlink"),
        ("linux-x86_64__nvidia-h100-mig__590.48.01.txt", 0, "Nvlink queries are not supported for Devices in MIG mode"),
    ],
)
def test_a_real_list_of_ports_is_read(name: str, up: int, said: str | None) -> None:
    require_captures()
    links, error = parse_nvlinks(printed(blocks()[name]))
    assert error is None
    assert [(len(gpu.up), gpu.said) for gpu in links] == [(up, said)]


def test_every_gpu_of_a_real_machine_has_its_twelve_ports() -> None:
    require_captures()
    name = next(name for name in blocks() if name.endswith("nvlink.status.a100"))
    links, error = parse_nvlinks(printed(blocks()[name]))
    assert error is None
    assert {gpu.up for gpu in links[:-1]} == {tuple(range(12))}


def test_a_port_that_is_down_is_told_from_one_that_is_up() -> None:
    links, error = parse_nvlinks(printed("GPU 0: A (UUID: x)\n\t Link 0: <inactive>\n\t Link 1: 25 GB/s\n"))
    assert error is None and (links[0].up, links[0].down) == ((1,), (0,))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "wings\n",
        "\t Link 0: 25 GB/s\n",
        "GPU 0: A\n\t Link 0: broken\n",
        "GPU 0: A\n",
        "GPU 0: A\nGPU 0: A\n",
        "GPU 0: A\n\t Link 0: 25 GB/s\n\t Link 0: <inactive>\n",
    ],
)
def test_ports_that_are_not_understood_are_no_ports(text: str) -> None:
    links, error = parse_nvlinks(printed(text))
    assert links == () and error


@given(st.text(), st.sampled_from([0, 1, 124, None]))
def test_any_text_is_read_or_refused_and_never_a_crash(text: str, code: int | None) -> None:
    links, error = parse_nvlinks(printed(text, code))
    assert (error is None) == bool(links)
    log = parse_kernel(printed(text, code))
    assert code == 0 or log.error
