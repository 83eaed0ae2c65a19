"""Mistakes in the rest of a declaration, many at once, and what must never be shown."""

from collections.abc import Callable
from pathlib import Path

import pytest
from declared_sites import ALL, DIGEST, GLM, PROJECT, node, one_line

from declare.load import load_fleet
from declare.problem import DeclarationError
from declare.site import find_site

Files = dict[str, str | bytes]
Refusal = Callable[[Files], tuple[str, ...]]
WriteSite = Callable[[Files], Path]
N1, N2, EVERYONE, GROUP = (
    "inventory/prod/n1.yaml",
    "inventory/prod/n2.yaml",
    "group_data/all.yaml",
    "group_data/glm.yaml",
)

MISTAKES: dict[str, tuple[Files, str]] = {
    "batches_of_nothing": (
        {EVERYONE: ALL + "rollout:\n  batches: [1, 0]\n"},
        f"{EVERYONE}:5: rollout.batches: want counts or percents such as [1, \"25%\"], found '0'",
    ),
    "a_policy_nobody_knows": (
        {EVERYONE: ALL + "rollout: {on_failed_gate: go}\n"},
        f'{EVERYONE}:4: rollout.on_failed_gate: want "stop" or "host", found "go"',
    ),
    "a_waiver_without_a_reason": (
        {EVERYONE: ALL + "waivers: [{gate: numa}]\n"},
        f"{EVERYONE}:4: waivers[0].reason: want text of at least 8 characters, found nothing",
    ),
    "a_waiver_with_blanks_for_a_reason": (
        {EVERYONE: ALL + 'waivers: [{gate: numa, reason: "           "}]\n'},
        f"{EVERYONE}:4: waivers[0].reason: want text of at least 8 characters, found",
    ),
    "a_waiver_with_half_a_reason": (
        {EVERYONE: ALL + "waivers: [{gate: numa, reason: so}]\n"},
        f'{EVERYONE}:4: waivers[0].reason: want text of at least 8 characters, found "so"',
    ),
    "a_waiver_for_a_node_that_is_not_there": (
        {EVERYONE: ALL + "waivers:\n  - {gate: numa, reason: known to be wrong, nodes: [n11]}\n"},
        f'{EVERYONE}:5: waivers[0].nodes: want a known node, found "n11"; did you mean "n1"?',
    ),
    "a_waiver_of_a_group_for_another_node": (
        {N2: node(2, "other"), GROUP: GLM + "waivers: [{gate: numa, reason: known to be wrong, nodes: [n2]}]\n"},
        f'{GROUP}:5: waivers[0].nodes: want one of n1, found the unknown node of glm "n2"',
    ),
    "a_waiver_for_a_service_that_is_not_there": (
        {EVERYONE: ALL + "waivers: [{gate: numa, reason: known to be wrong, services: [qwen]}]\n"},
        f'{EVERYONE}:4: waivers[0].services: want one of glm, found the unknown service "qwen"',
    ),
    "evidence_with_more_bad_than_asked": (
        {"evidence/run.json": '{"model": "glm", "engine": "0.30.0", "partition": [42, 36], "trials": 10, "bad": 11}'},
        "evidence/run.json: bad: want at most 10, the trials, found 11",
    ),
    "evidence_cut_off": ({"evidence/run.json": '{"model": "glm",'}, "evidence/run.json:1: want well-formed JSON"),
}


@pytest.mark.parametrize(("files", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_elsewhere_is_told_with_its_place(refusal: Refusal, files: Files, said: str) -> None:
    assert one_line(refusal(files)).startswith(said)


def test_all_mistakes_of_all_files_are_told_at_once(write_site: WriteSite) -> None:
    fleet = write_site(
        {
            N1: node().replace("count: 8", "count: eight") + "colour: red\n",
            N2: "address: [",
            GROUP: GLM + "    port: 0\n    prot: 8000\n",
            "inventory/prod/n3.yaml": node(3),
            EVERYONE: ALL + "rollout: {batches: []}\n",
        }
    )
    with pytest.raises(DeclarationError) as refused:
        load_fleet(find_site(str(fleet), PROJECT), {"tpp": 3})
    told = "\n".join(refused.value.lines)
    for part in ("gpus.count", "colour", "n2.yaml:", "glm.port", "glm.prot", "batches", "--data tpp"):
        assert part in told


@pytest.mark.parametrize("name", ["group_data/all.yaml", "group_data/glm.yaml"])
def test_a_file_that_cannot_be_read_is_told_and_not_what_it_would_have_said(refusal: Refusal, name: str) -> None:
    group = {"group_data/glm.yaml": "services:\n  glm: {layout: {tp: 4}}\n", "inventory/prod/n1.yaml": node()}
    told = one_line(refusal({**group, name: "services: [\n"}))
    assert told.startswith(f"{name}:2: want well-formed YAML")


@pytest.mark.parametrize("name", ["inventory/prod/n2.YAML", "group_data/extra.YML", "group_data/extra.yml"])
def test_a_file_of_another_ending_is_told_and_not_passed_over(refusal: Refusal, name: str) -> None:
    assert one_line(refusal({name: node(2)})) == f"{name}: want the ending .yaml, found {Path(name).suffix}"


def test_one_mistake_of_a_group_is_told_once_however_many_nodes_it_has(write_site: WriteSite) -> None:
    files = {f"inventory/prod/n{number}.yaml": node(number) for number in range(1, 9)}
    fleet = write_site({**files, GROUP: GLM + "    port: x\n"})
    with pytest.raises(DeclarationError) as refused:
        load_fleet(find_site(str(fleet), PROJECT))
    assert len(refused.value.lines) == 1


def test_a_secret_written_where_its_reference_belongs_is_never_shown(write_site: WriteSite) -> None:
    for wrong in ("hunter2", "{env: hunter-2}", "[hunter2]", "{file: {hunter2: 1}}", "{env: A, file: hunter2}"):
        fleet = write_site({GROUP: GLM + f"    secrets: {{VLLM_API_KEY: {wrong}}}\n"})
        with pytest.raises(DeclarationError) as refused:
            load_fleet(find_site(str(fleet), PROJECT))
        assert "VLLM_API_KEY" in str(refused.value)
        assert "hunter" not in str(refused.value)


def test_a_missing_digest_of_the_lab_asks_for_the_lab(write_site: WriteSite, tmp_path: Path) -> None:
    fleet = write_site({EVERYONE: ALL.replace(f'digest: "{DIGEST}"', "digest_file: ../.lab/demo/image.digest")})
    with pytest.raises(DeclarationError, match="run `fleet lab up`"):
        load_fleet(find_site(str(fleet), tmp_path / "site"))


def test_an_empty_fleet_is_refused(write_site: WriteSite) -> None:
    fleet = write_site()
    (fleet / "n1.yaml").unlink()
    with pytest.raises(DeclarationError, match=r"inventory/prod: want at least one NODE\.yaml, found an empty fleet"):
        load_fleet(find_site(str(fleet), PROJECT))


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("{user: 'Root!'}", "host.user: want a user's name in small letters, digits, _ and -, found 'Root!'"),
        ("{sysctl: {'a;b': 1}}", "host.sysctl.a;b: want a kernel setting such as vm.max_map_count, found 'a;b'"),
        ("{apt: {N: {url: 'https://x', suite: ./, key: k}}}", "host.apt.N: want a name in small letters"),
        ("{apt: {n: {url: 'ftp://x', suite: ./, key: k}}}", "host.apt.n.url: want the URL of an archive"),
        (
            "{apt: {n: {url: 'http://x', suite: noble, key: k}}}",
            "host.apt.n: want components, or a suite that ends in /",
        ),
    ],
)
def test_what_a_machine_cannot_be_is_told_in_words(refusal: Refusal, host: str, said: str) -> None:
    assert any(said in line for line in refusal({"group_data/all.yaml": f"host: {host}\n"}))
