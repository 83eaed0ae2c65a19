"""A difference is shown as the files are: lines end at newlines, and nowhere else."""

import pytest

from fleet.releases.difference import FileDiff


@pytest.mark.parametrize("inside", ["\u2028", "\x85", "\x0c", "\r"])
def test_a_value_stays_on_its_line(inside: str) -> None:
    before, after = 'A="x"\nB="1"\n', f'A="x{inside}+B=2"\nB="1"\n'
    told = FileDiff(path="/env", before=before, after=after).lines()
    assert told[3:] == ['-A="x"', f'+A="x{inside}+B=2"', ' B="1"']


@pytest.mark.parametrize(("before", "after"), [(None, "a\n"), ("a\n", None), ("", "a\n"), ("a\n\n", "a\n")])
def test_a_line_that_comes_or_goes_is_one_line(before: str | None, after: str | None) -> None:
    told = FileDiff(path="/env", before=before, after=after).lines()[3:]
    assert [line for line in told if not line.startswith(" ")] in (["+a"], ["-a"], ["-"])


def test_equal_files_have_no_difference() -> None:
    assert FileDiff(path="/env", before="a\n", after="a\n").lines() == []
