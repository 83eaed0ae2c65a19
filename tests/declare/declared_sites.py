"""Texts of a small site without a mistake, to be varied by tests."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
DIGEST = f"sha256:{'0' * 64}"

NODE = """\
address: {address}
groups: [{groups}]
gpus: {{count: 8, model: NVIDIA A100-SXM4-80GB, memory_mib: 81920}}
nvlink_islands: [[0, 1], [2, 3], [4, 5], [6, 7]]
numa: [0, 0, 0, 0, 1, 1, 1, 1]
"""
ALL = f"""\
images:
  engine: {{name: registry.example/engine, digest: "{DIGEST}", engine: 0.30.0}}
defaults: {{image: engine, max_model_len: 4096}}
"""
GLM = """\
services:
  glm:
    model: /srv/glm
    layout: {tp: 4, pp: 2, partition: [42, 36]}
"""


def node(number: int = 1, groups: str = "glm") -> str:
    """The text of a NODE.yaml without a mistake."""
    return NODE.format(address=f"192.0.2.{number}", groups=groups)


def one_line(lines: tuple[str, ...]) -> str:
    """The only line: one mistake must not be told in several ways."""
    assert len(lines) == 1, "\n".join(lines)
    return lines[0]
