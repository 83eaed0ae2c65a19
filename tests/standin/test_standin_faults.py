from pathlib import Path

import pytest

from lab.standin.faults import FaultError, Faults, parse


def test_all_faults_are_read() -> None:
    text = (
        "slow-start:1.5, first-completion-500,completion-500,hang,hang:p=0.5\ncrash-start:p=0.2,crash-after:3:p=1,loop"
    )
    found = [(fault.kind, fault.amount, fault.chance) for fault in parse(text)]
    assert found == [
        ("slow-start", 1.5, 1.0),
        ("first-completion-500", 0.0, 1.0),
        ("completion-500", 0.0, 1.0),
        ("hang", 0.0, 1.0),
        ("hang", 0.0, 0.5),
        ("crash-start", 0.0, 0.2),
        ("crash-after", 3.0, 1.0),
        ("loop", 0.0, 1.0),
    ]
    assert parse("") == []


@pytest.mark.parametrize(
    "text",
    [
        *("lop", "loop:p=1.5", "loop:p=-1", "loop:p=x", "loop:0.2", "slow-start", "slow-start:soon", "slow-start:nan"),
        *("slow-start:1:p=0.5", "crash-after", "crash-after:0", "crash-after:1.5", "crash-after:p=0.5", "hang:1"),
        *("first-completion-500:p=0.5", "slow-start:inf"),
    ],
)
def test_what_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(FaultError):
        parse(text)


def test_a_seed_repeats_the_draws() -> None:
    def draws(seed: str) -> list[bool]:
        faults = Faults({"VLLM_STANDIN_FAULT": "loop:p=0.2", "VLLM_STANDIN_SEED": seed})
        return [faults.strikes(faults.now()["loop"]) for _ in range(1000)]

    assert draws("7") == draws("7")
    assert draws("7") != draws("8")
    assert 150 < sum(draws("7")) < 250


def test_the_file_is_read_again_each_time(tmp_path: Path) -> None:
    file = tmp_path / "fault"
    faults = Faults({"VLLM_STANDIN_FAULT": "loop", "VLLM_STANDIN_FAULT_FILE": str(file)})
    assert set(faults.now()) == {"loop"}
    file.write_text("hang\n")
    assert set(faults.now()) == {"loop", "hang"}
    file.write_text("hnag\n")
    with pytest.raises(FaultError, match="hnag"):
        faults.now()
    file.unlink()
    assert set(faults.now()) == {"loop"}
