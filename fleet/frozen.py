"""The one way models of this project are made: frozen, and closed to unknown fields."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A value. Unknown fields are an error, so that a typing mistake in YAML is never silently ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # many are read only as parts of others

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A value with other fields. What was counted of the old ones once (cached properties) stays with the old."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied
