"""The lab's own declaration: what a newcomer reads first, and what every demo rolls out."""

import os
import re
from pathlib import Path

import pytest
import yaml
from declared_sites import PROJECT

from declare.load import load_fleet
from declare.reader import read_yaml
from declare.site import Site, find_site
from fleet.declaration import Fleet, GpuDeclaration, LayoutDeclaration, NodeDeclaration, ServiceDeclaration, Ssh
from fleet.policy import RolloutPolicy, ServicePolicy

RECORDED = {"a1": "a100", "h1": "h100", "l1": "l40s"}


@pytest.fixture
def lab(tmp_path: Path) -> Fleet:
    """The lab's fleet with a digest in place, wherever the lab itself is."""
    for folder in ("inventory/lab", "group_data"):
        (tmp_path / folder).mkdir(parents=True)
        for path in (PROJECT / folder).glob("*.yaml"):
            (tmp_path / folder / path.name).write_text(path.read_text())
    (tmp_path / ".lab/demo").mkdir(parents=True)
    (tmp_path / ".lab/demo/image-0.30.0.digest").write_text(f"sha256:{'0' * 64}\n")
    found: Site = find_site(os.fspath(tmp_path / "inventory/lab"), PROJECT)
    return load_fleet(found)


def test_three_nodes_run_three_services(lab: Fleet) -> None:
    services = {p.node.name: [(s.name, s.port) for s in p.services] for p in lab.placements}
    assert services == {"a1": [("glm", 8000)], "h1": [("qwen", 8000)], "l1": [("llama", 8000)]}
    assert lab.warnings == ()


def test_pairs_run_two_stages_and_the_switch_is_left_to_auto(lab: Fleet) -> None:
    (glm,), (qwen,), (llama,) = (placement.services for placement in lab.placements)
    assert glm.layout == LayoutDeclaration(tp=4, pp=2, partition=(42, 36))
    assert qwen.layout == "auto"
    assert llama.layout == LayoutDeclaration(tp=4)


@pytest.mark.parametrize(("name", "kind"), RECORDED.items(), ids=RECORDED)
def test_a_node_is_declared_as_its_recording_is(lab: Fleet, name: str, kind: str) -> None:
    recorded = yaml.safe_load((PROJECT / f"lab/recordings/{kind}/declared.yaml").read_text())
    node = lab.placement(name).node
    assert node.gpus == GpuDeclaration(**recorded["gpus"])
    assert [list(island) for island in node.nvlink_islands] == recorded["nvlink_islands"]
    assert list(node.numa) == recorded["numa"]
    assert list(node.groups) == recorded["groups"]


@pytest.mark.parametrize("path", sorted(PROJECT.glob("lab/models/*/config.json")), ids=lambda path: path.parent.name)
def test_every_model_of_the_lab_is_served(lab: Fleet, path: Path) -> None:
    models = [service.model for placement in lab.placements for service in placement.services]
    assert f"/srv/models/{path.parent.name}" in models


def test_the_page_about_sites_names_every_field() -> None:
    page = (PROJECT / "docs/site.md").read_text()
    models = (NodeDeclaration, GpuDeclaration, Ssh, ServiceDeclaration, ServicePolicy, RolloutPolicy, LayoutDeclaration)
    fields = {name for model in models for name in model.model_fields} - {"name"}
    assert sorted(name for name in fields if not re.search(rf"`{name}`|\b{name}\b", page)) == []


@pytest.mark.parametrize("path", sorted(PROJECT.glob("inventory/*/*.yaml")), ids=lambda path: path.stem)
def test_every_node_file_in_git_is_well_formed(path: Path) -> None:
    assert read_yaml(path).get("address")
