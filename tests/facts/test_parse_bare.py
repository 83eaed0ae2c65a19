"""What a bootstrap reads of a machine: files by mode, owner and kind, whatever their names."""

import base64

import pytest

from facts.parse.bare import read_bare
from facts.parse.frames import ProbeError, Section
from fleet.nodes.bare import Entry


def read(*lines: str) -> dict[str, Entry]:
    return read_bare(Section(text="\n".join(lines), code=0)).entries


@pytest.mark.parametrize(
    ("line", "path", "entry"),
    [
        ("644_root:root_regular_file /etc/a b", "/etc/a b", Entry("644", "root:root", "regular file", "f" * 64)),
        (
            "600_my_user:my_group_regular_empty_file /x",
            "/x",
            Entry("600", "my_user:my_group", "regular empty file", None),
        ),
        ("755_vllm:vllm_directory_by_link /srv", "/srv", Entry("755", "vllm:vllm", "directory by link", None)),
        ("755_root:root_directory /srv", "/srv", Entry("755", "root:root", "directory", None)),
    ],
)
def test_a_file_is_told_by_mode_owner_and_kind(line: str, path: str, entry: Entry) -> None:
    assert read(f"entry {line}", f"content {'f' * 64}  /etc/a b") == {path: entry}


@pytest.mark.parametrize(
    "line", ["644_root:root /etc/a", "stat: cannot statx /etc/a", "644 /etc/a", "_ /", "644_root:root_file"]
)
def test_a_line_in_another_form_is_no_file(line: str) -> None:
    assert read(f"entry {line}") == {}


def test_a_process_with_cudas_device_open_is_told_once_and_also_where_nvidia_smi_is_silent() -> None:
    lines = ["gpuapp 41, vllm", "cudaapp 41, python3", "cudaapp 77, python3"]
    assert read_bare(Section(text="\n".join(lines), code=0)).busy == ("process 41 (vllm)", "process 77 (python3)")


def test_what_hinders_writing_and_the_archives_of_apt_are_told() -> None:
    text = base64.b64encode(b"deb https://apt.example/deb ./\n").decode()
    found = read_bare(
        Section(
            text=f"stuck none\t/srv/a b\t/srv/a b/c\nstuck readonly\t/etc\t/etc/x\narchives {text} /etc/a.list", code=0
        )
    )
    assert found.stuck["/srv/a b/c"] == "/srv/a b, which is no folder"
    assert "/etc, which cannot be written" in found.stuck["/etc/x"]
    assert [(one.file, one.url, one.suite) for one in found.archives] == [
        ("/etc/a.list", "https://apt.example/deb", "./")
    ]
    with pytest.raises(ProbeError, match=r"/etc/a\.list"):
        read_bare(Section(text="archives ab /etc/a.list", code=0))


def test_memory_and_what_sysctl_reads_later_are_told() -> None:
    found = read_bare(
        Section(
            text="memory MemTotal:       1024 kB\nlater /etc/sysctl.d/99.conf\t -net/core/somaxconn \t  1  2", code=0
        )
    )
    assert found.memory_bytes == 1 << 20
    assert found.sysctl_later == (("/etc/sysctl.d/99.conf", "net.core.somaxconn", "1 2"),)
    assert read_bare(Section(text="memory nothing", code=0)).memory_bytes is None
