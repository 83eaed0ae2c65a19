"""The one way models of this project are made: frozen, and closed to unknown fields."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A value. Unknown fields are an error, so that a typing mistake in YAML is never silently ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # many are read only as parts of others
