"""What nothing needs any more is only what was brought, is not declared, and neither a release nor a process uses."""

import pytest

from fleet.delivery.leftover import Brought, Leftover, leftovers, mentions

OLD, NEW = "/srv/models/glm-4", "/srv/models/glm-5"
IMAGE = "vllm/vllm-openai@sha256:" + "a" * 64
RELEASES = {"glm/0123456789abcdef": f'{{"model": "{NEW}", "command": ["--volume", "{NEW}:{NEW}:ro"]}}'}


def names(*brought: Brought, declared: str = f'"{NEW}"', releases: dict[str, str] | None = None) -> list[str]:
    found = leftovers(brought, declared, RELEASES if releases is None else releases)
    return [one.name for one in found if one.kept is None]


def test_what_nobody_declares_and_no_release_needs_goes() -> None:
    assert names(Brought(name=OLD, bytes=7), Brought(name=NEW, bytes=8), Brought(name=IMAGE)) == [OLD, IMAGE]


def test_what_is_declared_is_not_even_told() -> None:
    assert leftovers([Brought(name=NEW, bytes=8)], f'{{"model":"{NEW}"}}', {}) == ()


def test_what_a_release_needs_stays_and_says_for_which() -> None:
    releases = {"glm/1": f'{{"model":"{OLD}","image":"{IMAGE}"}}'}
    brought = [Brought(name=OLD, bytes=7), Brought(name=IMAGE)]
    kept = "the release glm/1 needs it"
    assert leftovers(brought, "", releases) == (
        Leftover(name=OLD, bytes=7, kept=kept),
        Leftover(name=IMAGE, kept=kept),
    )


def test_what_a_process_has_open_stays() -> None:
    (left,) = leftovers([Brought(name=OLD, bytes=7, user="process 12 (python3)")], "", {})
    assert left.kept == "process 12 (python3) uses it"


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (f'"{OLD}"', True),
        (f'"{OLD}/draft"', True),
        (f'"{OLD}:/model:ro"', True),
        (f'{{\\"model\\":\\"{OLD}\\"}}', True),
        ('"/srv/models"', True),
        ('"/srv/models/:/models"', True),
        (f'"{OLD}.1"', False),
        (f'"{OLD}-air"', False),
        ('"/srv/model"', False),
        ('"/"', False),
        ("", False),
    ],
)
def test_a_folder_in_it_or_around_it_counts_and_another_name_does_not(text: str, known: bool) -> None:
    assert mentions(text, OLD) is known


def test_an_image_is_known_by_its_digest_whatever_its_name_is() -> None:
    assert mentions(f"mirror.example/vllm@sha256:{'a' * 64}", IMAGE)
    assert not mentions(f"vllm/vllm-openai@sha256:{'b' * 64}", IMAGE)
