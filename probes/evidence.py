"""What a probe is given and what it gives back.

A probe is one file with a function `probe(endpoint: Endpoint, limits: Limits) -> Evidence`. It asks one question of a
running engine over HTTP. A failure is evidence too: a probe raises nothing and ends within `limits.total_s`.
One that takes long may have a third parameter `say`: a function that it tells how far it is.
"""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SecretStr, field_validator

from fleet.proof.speed import Arrivals

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Endpoint(Frozen):
    """One instance of a service, as it is reached: `url` has no path, `model` is the name that it is served under."""

    url: str
    model: str
    api_key: SecretStr | None = None

    @field_validator("url")
    @classmethod
    def _has_scheme_and_no_path(cls, url: str) -> str:
        url = url.rstrip("/")
        parts = urlsplit(url)
        extra = parts.path or parts.query or parts.fragment or parts.username or parts.password
        if parts.scheme not in ("http", "https") or not parts.hostname or extra or parts.port == 0:
            raise ValueError(f"wanted http://HOST:PORT or https://HOST:PORT, found {url!r}")
        return url

    @property
    def headers(self) -> dict[str, str]:
        """What authorises a request here; never to be shown."""
        return {"Authorization": f"Bearer {self.api_key.get_secret_value()}"} if self.api_key else {}

    def hide(self, text: str) -> str:
        """The text without the API key, should a server have sent it back."""
        secret = self.api_key.get_secret_value() if self.api_key else ""
        return text.replace(secret, "***") if secret else text


class Evidence(Frozen):
    """What one probe wanted and what it found. `details` are numbers and texts for the report."""

    probe: str
    passed: bool
    wanted: str
    found: str
    seconds: float
    details: dict[str, JsonValue] = {}
    degraded: bool = False
    """Not passed, and yet the engine did answer: worse than is wanted, not broken."""

    @property
    def status(self) -> str:
        """`passed`, `degraded` or `failed`."""
        return "passed" if self.passed else "degraded" if self.degraded else "failed"

    def __str__(self) -> str:
        if self.passed:
            return f"{self.probe} passed in {self.seconds:.2f} s: {self.found}"
        how = "DEGRADED" if self.degraded else "FAILED"
        return f"{self.probe} {how} after {self.seconds:.2f} s: wanted {self.wanted}, found {self.found}"


class Limits(Frozen):
    """How long a probe may take and how much it may ask for. Times in seconds. None: as the probe thinks best."""

    total_s: Seconds = 120.0
    """Over everything the probe does, name resolution and connections included."""
    connect_s: Seconds = 5.0
    first_token_s: Seconds | None = None
    """From a request to the first token of its answer; None where only the total counts."""
    answers: Annotated[int, Field(ge=1)] = 2
    """Completions that must be right, one after the other: the first alone does not show an engine that dies of it."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Of one answer."""
    trials: Annotated[int, Field(ge=1)] | None = None
    """How often a probe that counts asks."""
    concurrency: tuple[Annotated[int, Field(ge=1)], ...] = ()
    """Requests at once; where a probe goes through several, all of them."""
    lengths: tuple[Annotated[int, Field(ge=1)], ...] = ()
    """Prompt lengths in tokens."""
    rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Requests a second, sent whether or not those before them are answered."""
    arrivals: Arrivals = "poisson"
    """Of requests at a rate: at random moments, as independent clients send them, or evenly spaced."""
    seed: int = 0
    """Of these moments."""
    before: Evidence | None = None
    """What the same probe found where all was well: the baseline."""
