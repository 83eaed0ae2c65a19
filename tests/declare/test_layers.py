"""What holds for a node: all < its groups < its own file. Mappings merge, all else replaces, null takes away."""

from collections.abc import Callable
from pathlib import Path

import pytest
from declared_sites import ALL, DIGEST, GLM, PROJECT, node

from declare.load import load_fleet
from declare.site import find_site
from fleet.declaration import Fleet, ServiceDeclaration, Speculative

Files = dict[str, str | bytes]
WriteSite = Callable[[Files], Path]


@pytest.fixture
def load(write_site: WriteSite) -> Callable[[Files], Fleet]:
    return lambda files: load_fleet(find_site(str(write_site(files)), PROJECT))


def the_service(fleet: Fleet, node: str = "n1") -> ServiceDeclaration:
    (service,) = fleet.placement(node).services
    return service


def test_a_node_without_the_group_does_not_run_its_services(load: Callable[[Files], Fleet]) -> None:
    fleet = load({"inventory/prod/n2.yaml": node(2, "spare")})
    assert [service.name for service in fleet.placement("n1").services] == ["glm"]
    assert fleet.placement("n2").services == ()


def test_services_of_all_run_everywhere_and_defaults_place_none(load: Callable[[Files], Fleet]) -> None:
    fleet = load(
        {
            "inventory/prod/n2.yaml": node(2, "spare"),
            "group_data/all.yaml": ALL + "services: {embed: {model: /srv/embed, port: 8001, layout: {tp: 1}}}\n",
        }
    )
    assert [service.name for service in fleet.placement("n1").services] == ["embed", "glm"]
    assert [service.name for service in fleet.placement("n2").services] == ["embed"]


def test_mappings_merge_and_lists_replace(load: Callable[[Files], Fleet]) -> None:
    fleet = load(
        {
            "group_data/all.yaml": ALL.replace("4096}", "4096, env: {A: all, B: all}, policy: {proof: [completion]}}"),
            "group_data/glm.yaml": GLM + "    env: {B: group, C: group}\n    policy: {drain_s: 5}\n",
            "inventory/prod/n1.yaml": node()
            + "services:\n  glm:\n    env: {C: node}\n    layout: {partition: [40, 38]}\n",
        }
    )
    glm = the_service(fleet)
    assert glm.env == {"A": "all", "B": "group", "C": "node"}
    assert glm.policy.drain_s == 5 and glm.policy.proof == ("completion",)
    assert (glm.layout.tp, glm.layout.pp, glm.layout.partition) == (4, 2, (40, 38))


def test_groups_count_in_the_order_of_the_node(load: Callable[[Files], Fleet]) -> None:
    files: Files = {
        "group_data/fast.yaml": "services: {glm: {port: 9000}}",
        "group_data/glm.yaml": GLM + "    port: 1\n",
    }
    files["inventory/prod/n1.yaml"] = node(groups="glm, fast")
    files["inventory/prod/n2.yaml"] = node(2, groups="fast, glm")
    fleet = load(files)
    assert the_service(fleet, "n1").port == 9000
    assert the_service(fleet, "n2").port == 1


def test_null_takes_a_service_from_one_node(load: Callable[[Files], Fleet]) -> None:
    fleet = load({"inventory/prod/n2.yaml": node(2) + "services: {glm: null}\n"})
    assert the_service(fleet, "n1").name == "glm"
    assert fleet.placement("n2").services == ()


def test_null_takes_a_setting_back_to_its_default(load: Callable[[Files], Fleet]) -> None:
    fleet = load(
        {
            "group_data/glm.yaml": GLM + "    served_model_name: x\n    env: {A: a}\n    flags: {--max-num-seqs: 4}\n",
            "inventory/prod/n1.yaml": node()
            + "services: {glm: {served_model_name: null, env: {A: null}, flags: {--max-num-seqs: null}}}\n",
        }
    )
    glm = the_service(fleet)
    assert (glm.served_model_name, glm.env, glm.flags) == (None, {}, {})


def test_null_inside_of_a_json_value_stays(load: Callable[[Files], Fleet]) -> None:
    text = GLM + "    hf_overrides: {rope_scaling: null}\n    flags: {--compilation-config: {mode: null}}\n"
    glm = the_service(load({"group_data/glm.yaml": text}))
    assert glm.hf_overrides == {"rope_scaling": None}
    assert glm.flags == {"--compilation-config": {"mode": None}}


def test_an_empty_mapping_places_a_service_whose_settings_stand_below(load: Callable[[Files], Fleet]) -> None:
    fleet = load(
        {
            "group_data/all.yaml": ALL.replace("4096}", "4096, model: /srv/m}"),
            "group_data/glm.yaml": "services: {m: {}}",
        }
    )
    assert the_service(fleet).model == "/srv/m"


def test_an_image_is_named_in_the_catalogue_or_written_out(load: Callable[[Files], Fleet]) -> None:
    inline = f'    image: {{name: other, digest: "sha256:{"1" * 64}", engine: 0.31.0}}\n'
    fleet = load({"inventory/prod/n2.yaml": node(2, "two"), "group_data/two.yaml": GLM + inline})
    assert the_service(fleet, "n1").image.reference == f"registry.example/engine@{DIGEST}"
    assert the_service(fleet, "n2").image.engine == "0.31.0"


def test_a_group_may_have_another_image_under_the_same_name(load: Callable[[Files], Fleet]) -> None:
    newer = f'images: {{engine: {{digest: "sha256:{"2" * 64}"}}}}\n'
    fleet = load({"inventory/prod/n2.yaml": node(2, "glm, new"), "group_data/new.yaml": newer})
    assert the_service(fleet, "n1").image.digest == DIGEST
    assert the_service(fleet, "n2").image.digest == f"sha256:{'2' * 64}"


def test_a_digest_file_lies_beside_the_yaml_that_names_it(load: Callable[[Files], Fleet]) -> None:
    fleet = load(
        {
            "group_data/all.yaml": ALL.replace(f'digest: "{DIGEST}"', "digest_file: ../build/digest"),
            "build/digest": f"sha256:{'3' * 64}\n",
        }
    )
    assert the_service(fleet).image.digest == f"sha256:{'3' * 64}"


def test_paths_are_relative_to_the_file_they_stand_in(
    load: Callable[[Files], Fleet], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/owner")
    hooks = "    policy: {drain: {command: [../bin/drain, ./x]}, undrain: {command: [curl, a/b]}}\n"
    fleet = load(
        {
            "inventory/prod/n1.yaml": node() + "ssh: {key: ../../keys/id, known_hosts: ~/known}\n",
            "group_data/glm.yaml": GLM + "    secrets: {A: {file: ../secrets/a}, B: {env: B}}\n" + hooks,
        }
    )
    site = tmp_path / "site"
    ssh = fleet.placement("n1").node.ssh
    assert (ssh.key, ssh.known_hosts) == (str(site / "keys/id"), "/home/owner/known")
    glm = the_service(fleet)
    assert glm.secrets["A"].file == str(site / "secrets/a") and glm.secrets["B"].env == "B"
    assert glm.policy.drain.command == (str(site / "bin/drain"), "./x")
    assert glm.policy.undrain.command == ("curl", "a/b")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("mtp", Speculative(method="mtp", k=3)),
        ("mtp:2", Speculative(method="mtp", k=2)),
        ("{method: ngram, k: 5}", Speculative(method="ngram", k=5)),
        ("none", "none"),
        ("auto", "auto"),
    ],
)
def test_speculation_has_a_short_form(load: Callable[[Files], Fleet], written: str, meant: object) -> None:
    assert the_service(load({"group_data/glm.yaml": GLM + f"    speculative: {written}\n"})).speculative == meant


def test_waivers_of_a_group_hold_for_its_nodes_only(load: Callable[[Files], Fleet]) -> None:
    waiver = "waivers: [{gate: %s, reason: known to be wrong}]\n"
    fleet = load(
        {
            "inventory/prod/n2.yaml": node(2, "spare"),
            "group_data/all.yaml": ALL + waiver % "numa",
            "group_data/glm.yaml": GLM + waiver % "boundary",
            "group_data/nobody.yaml": waiver % "heads-divide",
        }
    )
    assert {waiver.gate: waiver.nodes for waiver in fleet.waivers} == {"numa": (), "boundary": ("n1",)}


def test_group_data_that_no_node_uses_is_a_warning(load: Callable[[Files], Fleet]) -> None:
    fleet = load({"group_data/gml.yaml": GLM})
    (warning,) = fleet.warnings
    assert "gml.yaml: no node is in the group gml" in warning


def test_evidence_of_the_site_is_read(load: Callable[[Files], Fleet]) -> None:
    run = '{"model": "/srv/glm", "engine": "0.30.0", "partition": [20, 20, 20, 18], "trials": 200, "bad": 0}'
    (evidence,) = load({"evidence/glm.json": run}).evidence
    assert evidence.partition == (20, 20, 20, 18)


def test_nodes_come_in_name_order(load: Callable[[Files], Fleet]) -> None:
    fleet = load({f"inventory/prod/{name}.yaml": node(number) for number, name in enumerate(["n9", "b", "a-1"], 2)})
    assert [placement.node.name for placement in fleet.placements] == ["a-1", "b", "n1", "n9"]
