import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.main import app

LEVEL = {
    "concurrency": 8,
    "requests": 200,
    "failed": 0,
    "requests_per_s": 5.0,
    "output_tokens_per_s": 500.0,
    "ttft_s": {"p50": 0.1, "p90": 0.3, "p99": 0.9},
    "tpot_s": {"p50": 0.01, "p90": 0.02, "p99": 0.03},
}
RUN = {"probe": "speed", "passed": True, "wanted": "", "found": "", "seconds": 1, "details": {"levels": [LEVEL]}}


def run(path: Path, document: object, *words: str) -> Result:
    path.write_text(json.dumps(document))
    return CliRunner().invoke(app, ["capacity", str(path), *words])


def test_replicas_are_told_with_what_they_are_counted_from(tmp_path: Path) -> None:
    done = run(tmp_path / "a.json", RUN, "--load", "20", "--ttft-p99", "1", "--head-room", "0.2")
    assert done.exit_code == 0
    assert (
        done.stdout
        == "6 replicas for 20 requests/s (1 of them spare): 4 requests/s each, as at 8 at once less 20% head room\n"
    )


def test_limits_that_no_level_keeps_exit_with_2(tmp_path: Path) -> None:
    done = run(tmp_path / "a.json", RUN, "--load", "20", "--ttft-p99", "0.5", "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["replicas"] is None


def test_one_node_of_what_verify_kept_is_chosen(tmp_path: Path) -> None:
    rows = [{"node": node, "evidence": [{"probe": "smoke"}, RUN]} for node in ("a1", "h1")]
    assert run(tmp_path / "a.json", {"results": rows}, "--load", "1").exit_code == 1
    assert run(tmp_path / "a.json", {"results": rows}, "--load", "1", "--node", "h1").exit_code == 0


@pytest.mark.parametrize(
    "document", [[], {}, {"probe": "speed"}, {"results": [4]}, {**RUN, "details": {"levels": [{}]}}]
)
def test_what_is_no_speed_run_is_told(tmp_path: Path, document: object) -> None:
    done = run(tmp_path / "a.json", document, "--load", "1")
    assert done.exit_code == 1
    assert done.stderr
    assert "Traceback" not in done.output
