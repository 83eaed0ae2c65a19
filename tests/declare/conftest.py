"""Sites written into a temporary folder, as an owner keeps them in a repository of their own."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from declared_sites import ALL, GLM, PROJECT, node

from declare.load import load_fleet
from declare.problem import DeclarationError
from declare.site import find_site


@pytest.fixture
def write_site(tmp_path: Path) -> Callable[[Mapping[str, str | bytes]], Path]:
    """Writes files below a site's root and gives the folder of its fleet `prod`; what is not named has no mistake."""

    def write(files: Mapping[str, str | bytes] | None = None) -> Path:
        whole: dict[str, str | bytes] = {
            "inventory/prod/n1.yaml": node(),
            "group_data/all.yaml": ALL,
            "group_data/glm.yaml": GLM,
            **(files or {}),
        }
        root = tmp_path / "site"
        for name, content in whole.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return root / "inventory/prod"

    return write


@pytest.fixture
def refusal(
    write_site: Callable[[Mapping[str, str | bytes]], Path], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Mapping[str, str | bytes]], tuple[str, ...]]:
    """Writes a site with a mistake and gives the lines that refuse it, paths as seen from the site's root."""

    def refuse(files: Mapping[str, str | bytes]) -> tuple[str, ...]:
        fleet = write_site(files)
        monkeypatch.chdir(fleet.parent.parent)
        with pytest.raises(DeclarationError) as refused:
            load_fleet(find_site(str(fleet), PROJECT))
        return refused.value.lines

    return refuse


@pytest.fixture
def pyinfra(monkeypatch: pytest.MonkeyPatch) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs pyinfra's own command on a fleet, from a checkout, without a terminal."""

    def run(fleet: Path | str, *words: str, project: Path = PROJECT) -> "subprocess.CompletedProcess[str]":
        monkeypatch.setenv("FLEET", str(fleet))
        monkeypatch.delenv("PYINFRA_YES", raising=False)
        program = Path(sys.executable).with_name("pyinfra")
        return subprocess.run(
            [program, "inventory.py", *words],
            cwd=project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run
