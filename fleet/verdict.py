"""What a gate says."""

from typing import Literal

from fleet.frozen import Frozen

Status = Literal["pass", "warn", "fail", "waived"]


class Finding(Frozen):
    """What a gate wanted and what it found. `warning` findings are shown and do not stop a rollout."""

    want: str
    got: str
    because: str | None = None
    """What was seen, word for word, where it explains the finding."""
    remedy: str | None = None
    """Replaces the gate's general remedy where this finding knows better."""
    warning: bool = False
    unknown: bool = False
    """A fact was lacking, so that this could not be decided."""


class Verdict(Frozen):
    """One gate's answer for one node, and for one service of it where the gate is about a service."""

    gate: str
    node: str
    service: str | None = None
    status: Status
    want: str = ""
    got: str = ""
    because: str | None = None
    remedy: str = ""
    reason: str | None = None
    """Of the waiver."""
    unknown: bool = False
    """Fails because a fact was lacking, not because of what was found."""

    def __str__(self) -> str:
        place = f"{self.node}/{self.service}" if self.service else self.node
        if self.status == "pass":
            return f"{self.gate}: pass on {place}"
        text = f"{self.gate}: want {self.want}, found {self.got} on {place}"
        if self.because:
            text += f" ({self.because})"
        if self.status == "waived":
            return f"{text}; waived: {self.reason}"
        return f"{text}; {self.remedy}" if self.remedy else text

    @property
    def stops(self) -> bool:
        """Does this verdict stop the rollout (of this host, or of all, by the policy)?"""
        return self.status == "fail"
