"""Where checkpoints and images come from, as the owner declares it, and how a fleet passes them on."""

import re
from typing import Annotated, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field, model_validator

from fleet.delivery.manifest import MOST_BYTES
from fleet.frozen import Frozen

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PLAIN = re.compile(r"[!#-;=?-\[\]_a-z~]+")
"""Signs that may stand in a URL (RFC 3986): curl takes others as quotes or as several URLs in one."""
MOST_MIB_S = 1_000_000


def _split(text: str) -> SplitResult | None:
    """None where it is no URL of a server."""
    try:
        parts = urlsplit(text) if _PLAIN.fullmatch(text) else None
        served = parts is not None and parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # no port, or no IPv6 address
        return None
    return parts if served else None


def _url(text: str) -> str:
    if "@" in text.partition("://")[2].partition("/")[0]:
        raise ValueError("want a URL without a user or password, for it stands in logs, found one with them")
    if (parts := _split(text)) is None:
        raise ValueError(f"want a URL such as https://mirror.example/glm/, found {text[:60]!r}")
    if parts.query or parts.fragment:
        raise ValueError("want a URL to which a file's path can be added, found one with ? or #")
    return text


def _path(text: str) -> str:
    if not text.startswith("/") or any(sign < " " for sign in text) or ".." in text.split("/"):
        raise ValueError(f"want an absolute path without .., found {text!r}")
    return text


def _digest(text: str) -> str:
    if not _DIGEST.fullmatch(text):
        raise ValueError(f"want a digest (sha256: and 64 hex digits), found {len(text)} characters")
    return text


Url = Annotated[str, AfterValidator(_url)]
PlainPath = Annotated[str, AfterValidator(_path)]
Sha256 = Annotated[str, AfterValidator(_digest)]


class CheckpointDeclaration(Frozen):
    """What a model's folder must hold, and where it can be had. Without a source: from nodes that have it already."""

    manifest: PlainPath
    """The file that `fleet manifest` made, on the machine that rolls out; absolute once loaded."""
    digest: Sha256
    """Of that manifest; read from the file where the fleet is loaded, never written by hand."""
    folder: PlainPath | None = None
    """A folder of the machine that rolls out, or of `peer`."""
    url: Url | None = None
    """Files are fetched from URL/PATH, by each node that no other node can serve."""
    peer: str | None = None
    """A node of the fleet that has it: in the service's own model folder, or in `folder`."""
    bytes: Annotated[int, Field(ge=0, strict=True)] | None = None
    """Of all its files, by the manifest; never written by hand."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [name for name in ("folder", "url") if getattr(self, name) is not None]
        if len(given) > 1 or (self.url is not None and self.peer is not None):
            raise ValueError("want one of folder, url and peer, found several")
        return self


class ArchiveDeclaration(Frozen):
    """An image as an archive (OCI layout or docker-archive in a tar), where no registry is to be asked."""

    file: PlainPath | None = None
    """On the machine that rolls out, or on `peer`."""
    url: Url | None = None
    peer: str | None = None
    """A node of the fleet on which the file lies. A runtime does not give an image back under the digest it had."""
    sha256: Sha256 | None = None
    """Of the archive; needed with `url` and `peer`, computed of a file of the machine that rolls out."""
    bytes: Annotated[int, Field(ge=1, le=MOST_BYTES, strict=True)] | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.file is None) == (self.url is None) or (self.peer is not None and self.file is None):
            raise ValueError("want exactly one of `file: PATH` and `url: URL`, and with `peer: NODE` its file")
        if (self.url is not None or self.peer is not None) and (self.sha256 is None or self.bytes is None):
            raise ValueError("want sha256 and bytes of the archive beside its url or peer, found not both")
        return self


class DeliveryPolicy(Frozen):
    """How bytes travel. Rates in MiB a second, of one transfer."""

    serves: Annotated[int, Field(ge=1, le=32, strict=True)] = 2
    """Transfers that one node, or the controller, gives at a time."""
    parallel: Annotated[int, Field(ge=1, le=16, strict=True)] = 2
    """Transfers that one node takes at a time: one can be verified while another arrives."""
    rate_mib_s: Annotated[float, Field(gt=0, le=MOST_MIB_S, strict=True)] | None = None
    port: Annotated[int, Field(ge=1, le=65535, strict=True)] = 8730
    """Where a node that serves others listens while a delivery runs."""
    bundle_mib: Annotated[int, Field(ge=1, strict=True)] = 1024
    """Small files travel together up to this size; a larger file travels alone."""
    lease_s: Annotated[int, Field(ge=10, le=3600, strict=True)] = 60
    """For so long after its last word a node is a delivery's; then nothing listens there, and another may begin."""
