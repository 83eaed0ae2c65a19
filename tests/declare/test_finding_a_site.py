"""FLEET names a folder under inventory/ or any path; what belongs to a site is found beside it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from declared_sites import ALL, GLM, PROJECT, node

from declare.load import load_fleet
from declare.nodes import wrong_endings
from declare.problem import DeclarationError
from declare.site import find_site

WriteSite = Callable[..., Path]


def test_without_fleet_the_lab_is_meant() -> None:
    site = find_site(None, PROJECT)
    assert (site.name, site.root, site.group_data) == ("lab", PROJECT, PROJECT / "group_data")


def test_a_path_has_its_own_group_data_probes_patches_and_evidence(write_site: WriteSite) -> None:
    fleet = write_site(
        {"probes/mine.py": "def probe(endpoint, limits): ...\n", "evidence/run.json": "{}", "patches/x": ""}
    )
    site = find_site(str(fleet), PROJECT)
    root = fleet.parent.parent
    assert (site.name, site.root, site.group_data) == ("prod", root, root / "group_data")
    assert site.probes == (root / "probes", PROJECT / "probes")
    assert site.patches[0] == root / "patches"
    assert site.evidence == (root / "evidence/run.json",)
    assert {"mine", "completion"} <= set(site.probe_names)


def test_a_site_proves_with_a_probe_of_its_own(write_site: WriteSite) -> None:
    fleet = write_site(
        {
            "probes/mine.py": "def probe(endpoint, limits): ...\n",
            "group_data/glm.yaml": GLM + "    policy: {proof: [completion, mine]}\n",
        }
    )
    (service,) = load_fleet(find_site(str(fleet), PROJECT)).placement("n1").services
    assert service.policy.proof == ("completion", "mine")


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_a_probe_that_cannot_be_read_is_told_with_its_file(write_site: WriteSite, content: bytes | None) -> None:
    fleet = write_site({"probes/mine.py": content} if content else {"probes/mine.py/nothing": ""})
    with pytest.raises(DeclarationError, match=r"probes/mine\.py(:1)?: want (UTF-8 text|a readable file), found "):
        load_fleet(find_site(str(fleet), PROJECT))


def test_a_closed_folder_of_group_data_is_no_fleet_without_services(tmp_path: Path) -> None:
    (told,) = wrong_endings(tmp_path / "nowhere")  # root, who runs these tests, finds no folder closed
    assert told.endswith("nowhere: want a folder that can be read, found No such file or directory")


@pytest.mark.parametrize("place", ["group_data", "inventory/prod/group_data"])
def test_a_file_in_the_place_of_group_data_is_no_fleet_without_services(tmp_path: Path, place: str) -> None:
    (tmp_path / "inventory/prod").mkdir(parents=True)
    (tmp_path / "inventory/prod/n1.yaml").write_text(node())
    (tmp_path / place).write_text("../elsewhere\n")  # what a link becomes where git has none
    with pytest.raises(DeclarationError, match=rf"{place}: want a folder of group data, found something else"):
        find_site(str(tmp_path / "inventory/prod"), PROJECT)


def test_group_data_inside_of_the_fleet_wins_over_that_of_the_site(write_site: WriteSite) -> None:
    fleet = write_site({"inventory/prod/group_data/all.yaml": ALL})
    site = find_site(str(fleet), PROJECT)
    assert (site.root, site.group_data) == (fleet, fleet / "group_data")


@pytest.mark.parametrize(
    ("fleet", "said"),
    [
        ("~nobody-of-this-name/fleet", "FLEET: want a folder, found Could not determine home directory.: '~nobody"),
        ("x" * 5000, "FLEET: want a folder, found File name too long: 'xxx"),
    ],
)
def test_a_fleet_that_cannot_even_be_looked_for_is_refused(fleet: str, said: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        find_site(fleet, PROJECT)
    assert str(refused.value).startswith(said) and len(str(refused.value)) < 200


def test_a_plain_folder_of_nodes_is_a_fleet(tmp_path: Path) -> None:
    (tmp_path / "n1.yaml").write_text(node())
    fleet = load_fleet(find_site(str(tmp_path), PROJECT))
    assert [placement.node.name for placement in fleet.placements] == ["n1"]
    assert "no group_data" in fleet.warnings[0]


def test_a_relative_path_is_seen_from_the_working_directory(
    write_site: WriteSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = write_site()
    monkeypatch.chdir(fleet.parent)
    assert find_site("prod", PROJECT).nodes_folder == fleet
    assert find_site("./prod/", PROJECT).nodes_folder == fleet


@pytest.mark.parametrize(
    ("fleet", "said"),
    [
        ("labb", "want a folder, found no 'labb'; did you mean \"lab\"? inventory/ has lab"),
        ("", "want a folder under inventory/ or a path, found an empty text"),
        ("../lab/nowhere", "want a folder, found no '../lab/nowhere'"),
        ("inventory.py", "want a folder, found the file 'inventory.py'"),
    ],
)
def test_a_fleet_that_is_not_there_is_refused(fleet: str, said: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        find_site(fleet, PROJECT)
    assert said in str(refused.value)


def test_the_root_of_a_site_is_no_fleet(write_site: WriteSite) -> None:
    with pytest.raises(DeclarationError, match=r"found the root of a site; name one of .*inventory/prod"):
        find_site(str(write_site().parent.parent), PROJECT)
