"""Archives of packages as apt's own files name them: one line each (sources.list(5)), or in the deb822 form."""

import re

from fleet.frozen import Frozen

_LINE = re.compile(r"deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<url>\S+)\s+(?P<suite>\S+)(?P<components>.*)")


class Archive(Frozen):
    """One archive with one suite, and the file that names it."""

    file: str
    url: str
    suite: str
    components: frozenset[str] = frozenset()

    def same(self, url: str, suite: str, architecture: str) -> bool:
        """Does apt take both for one? It then wants one key for both, and reads no archive at all where they differ."""
        mine, other = (
            (place.rstrip("/").replace("$(ARCH)", architecture), name.replace("$(ARCH)", architecture))
            for place, name in ((self.url, self.suite), (url, suite))
        )
        return mine == other


def archives_in(file: str, text: str) -> list[Archive]:
    """Archives of binary packages that a file of apt names and that are not switched off; by its ending its form."""
    if file.endswith(".sources"):
        return [one for stanza in re.split(r"\n[ \t]*\n", text) for one in _of_stanza(file, stanza)]
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    found = (match for line in lines if (match := _LINE.fullmatch(line)))
    return [
        Archive(file=file, url=m["url"], suite=m["suite"], components=frozenset(m["components"].split())) for m in found
    ]


def _of_stanza(file: str, stanza: str) -> list[Archive]:
    fields: dict[str, str] = {}
    name = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1] in (" ", "\t"):
            fields[name] = f"{fields.get(name, '')} {line.strip()}"
        else:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()
    off = fields.get("enabled", "yes").lower() in ("no", "false", "0", "off", "without", "disable")
    if off or "deb" not in fields.get("types", "").split():
        return []
    components = frozenset(fields.get("components", "").split())
    return [
        Archive(file=file, url=url, suite=suite, components=components)
        for url in fields.get("uris", "").split()
        for suite in fields.get("suites", "").split()
    ]
