from functools import cached_property

import pytest
from pydantic import ValidationError

from fleet.frozen import Frozen


class Sized(Frozen):
    parts: tuple[int, ...]

    @cached_property
    def total(self) -> int:
        return sum(self.parts)


def test_a_changed_copy_counts_anew() -> None:
    """A fleet that had looked a node up once did not know the nodes that a copy had more."""
    small = Sized(parts=(1, 2))
    assert small.total == 3
    assert small.model_copy(update={"parts": (1, 2, 3)}).total == 6
    assert small.model_copy() == small and small.total == 3


def test_an_unknown_field_is_an_error() -> None:
    with pytest.raises(ValidationError, match="wrong"):
        Sized(parts=(), wrong=1)  # type: ignore[call-arg]
