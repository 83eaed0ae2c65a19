"""Archives of packages: which are the owner's, which are declared, and what may come from them."""

import pytest

from fleet.nodes.archive import archives_in
from fleet.nodes.bare import MachineFacts
from fleet.nodes.bootstrap import pin_text
from fleet.nodes.host import AptSource, HostDeclaration
from fleet.nodes.step import Bootstrap
from tests.fleet.nodes.machines import APT, DECLARED, conforming, needs


def test_only_pinned_packages_come_from_a_pinned_archive() -> None:
    assert pin_text(APT) == (
        'Package: *\nPin: origin "apt.example"\nPin-Priority: -1\n\n'
        "Package: nvidia-container-toolkit\nPin: version 1.17.*\nPin-Priority: 1001\n"
    )


def test_a_pinned_package_is_installed_in_its_version_or_not_at_all() -> None:
    found = needs(conforming(programs=frozenset({"podman", "nvidia-smi", "rsync", "curl"})))
    assert [step.packages for step in found.steps if step.kind == "install"] == [("nvidia-container-toolkit=1.17.*",)]


def test_a_package_in_another_version_than_its_pin_is_told_and_left_alone() -> None:
    """Whatever it is, a container runtime is nothing to change under an engine by the way."""
    other = needs(conforming(packages={"nvidia-container-toolkit": "1.99.0-1"}))
    assert not other.steps and not other.refused
    (note,) = other.notes
    assert note.startswith("nvidia-container-toolkit 1.99.0-1 is installed, 1.17.* is pinned; apt-get install")
    assert needs(conforming(packages={"nvidia-container-toolkit": "1.17.8-1"})) == Bootstrap(node="n1")


def test_an_archive_may_give_others_besides_its_pinned_packages() -> None:
    """apt knows no `Package: *` with a version: it warned, and went on as if nothing stood there."""
    both = APT.model_copy(update={"pin": {"*": "*", **APT.pin}})
    assert pin_text(both) == "Package: nvidia-container-toolkit\nPin: version 1.17.*\nPin-Priority: 1001\n"
    with pytest.raises(ValueError, match="found a version for all"):
        AptSource.model_validate(APT.model_dump() | {"pin": {"*": "1.17.*"}})


@pytest.mark.parametrize(
    ("file", "text", "taken"),
    [
        ("own.list", "deb [arch=amd64 signed-by=/usr/share/keyrings/x.gpg] https://apt.example/deb ./\n", True),
        ("own.list", "# a comment\ndeb https://apt.example/deb/ ./ # another\n", True),
        ("own.list", "deb-src https://apt.example/deb ./\n# deb https://apt.example/deb ./\n", False),
        ("own.list", "deb https://apt.example/deb /\n", False),
        ("own.sources", "Types: deb deb-src\nURIs: https://a.example\n https://apt.example/deb\nSuites: ./ x\n", True),
        ("own.sources", "# ours\nEnabled: no\nTypes: deb\nURIs: https://apt.example/deb\nSuites: ./\n", False),
        ("own.sources", "Types: deb\nURIs: https://b.example\nSuites: ./\n\nTypes: deb\nURIs: https://apt.example/deb\n"
         "Suites: ./\nSigned-By:\n -----BEGIN PGP\n .\n abc\n", True),
    ],
)  # fmt: skip
def test_an_archive_that_the_machine_has_under_another_name_is_recognised(file: str, text: str, taken: bool) -> None:
    """With a second file that names another key apt reads no archive at all (`Conflicting values set`)."""
    bare = conforming()
    entries = {path: there for path, there in bare.entries.items() if not path.startswith("/etc/apt/")}
    archives = tuple(archives_in(f"/etc/apt/sources.list.d/{file}", text))
    found = needs(bare.model_copy(update={"entries": entries, "archives": archives}))
    written = [step.path for step in found.steps if step.kind == "file"]
    pins = "/etc/apt/preferences.d/vllm-fleet-nvidia"
    ours = ["/etc/apt/keyrings/vllm-fleet-nvidia.asc", "/etc/apt/sources.list.d/vllm-fleet-nvidia.sources", pins]
    assert written == ([pins] if taken else ours)


def test_an_archive_is_the_same_whether_apt_or_the_owner_puts_the_architecture_in_its_place() -> None:
    (one,) = archives_in("/x.list", "deb https://nvidia.example/stable/deb/$(ARCH) /\n")
    assert one.same("https://nvidia.example/stable/deb/amd64", "/", "amd64")
    assert not one.same("https://nvidia.example/stable/deb/amd64", "/", "arm64")


def test_an_archive_that_is_named_twice_is_left_to_its_owner_and_one_without_a_component_is_refused() -> None:
    facts = conforming(archives=tuple(archives_in("/etc/apt/own.list", "deb https://apt.example/deb ./\n")))
    ours = "/etc/apt/sources.list.d/vllm-fleet-nvidia.sources"
    removed, update = needs(facts).steps
    assert (removed.command, update.kind) == (("rm", "-f", ours), "update")
    two = APT.model_copy(update={"suite": "noble", "components": ("main", "extra")})
    declared = DECLARED.model_copy(update={"apt": {"nvidia": two}})
    other = archives_in("/etc/apt/own.list", "deb https://apt.example/deb noble main\n")
    (refusal,) = needs(conforming(declared, archives=tuple(other)), declared).refused
    assert "found it without extra in /etc/apt/own.list" in str(refusal)


def test_an_archive_with_a_password_is_refused() -> None:
    with pytest.raises(ValueError, match="without a user or password"):
        AptSource(url="https://me:secret@apt.example/deb", suite="./", key="/k")


def test_the_archives_that_are_declared_must_answer_when_the_lists_are_read() -> None:
    bare = MachineFacts(os_id="debian", os_version="13", systemd=True, architecture="arm64", driver="570.1")
    other = APT.model_copy(update={"url": "https://apt.example/deb/$(ARCH)/"})
    found = needs(bare, DECLARED.model_copy(update={"apt": {"nvidia": other}}))
    assert [step.packages for step in found.steps if step.kind == "update"] == [("https://apt.example/deb/arm64",)]


def test_an_archive_that_is_declared_twice_is_refused_for_apt_would_read_none() -> None:
    """It would have two keys in two files, and apt wants one for both."""
    noble = {"url": "https://apt.example/deb", "suite": "noble", "components": ["main"], "key": "/k"}
    twice = {"a": noble, "b": noble | {"url": "https://apt.example/deb/", "components": ["extra"]}}
    with pytest.raises(ValueError, match="want each archive once, with all its components, found it as a and b"):
        HostDeclaration.model_validate({"apt": twice})
    other = twice | {"b": noble | {"suite": "jammy", "pin": {"podman": "2.*"}}}
    assert HostDeclaration.model_validate({"apt": other})
    with pytest.raises(ValueError, match=r"want one pin of podman, found 1\.\* and 2\.\*"):
        HostDeclaration.model_validate({"apt": other | {"a": noble | {"pin": {"podman": "1.*"}}}})
