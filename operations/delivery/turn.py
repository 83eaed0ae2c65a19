"""One node in a delivery: it begins, compares what it has, takes what it lacks while it gives to others, and ends."""

import re
import time
from typing import TYPE_CHECKING, Any

from facts.shell import Output
from fleet.delivery.delivery import ARCHIVES, GIB, MIB, Item, Need, need_of, present
from fleet.delivery.swarm import Bundle
from fleet.releases.places import RUNTIMES
from operations.delivery.call import LONGEST_S, NodeFailed, call, of_files, of_item
from operations.delivery.look import look_at, request_for
from operations.delivery.pace import Comparing, Pace
from operations.delivery.run import Delivery, Outcome
from operations.delivery.transfers import Transfers

if TYPE_CHECKING:
    from pyinfra.api.host import Host

TELL_EVERY_S = 20
_LITERAL = re.compile(r"[0-9.]+|[0-9a-fA-F:]*:[0-9a-fA-F:.]*")


class Turn:
    """What one node does in one run."""

    def __init__(self, run: Delivery, host: "Host") -> None:
        self.run, self.host, self.name = run, host, host.name
        self.needs = [need for need in run.found.needs.get(host.name, []) if need.action != "none"]
        self.began = time.monotonic()
        self.sources: dict[str, set[str]] = {}
        self.arrived: dict[str, int] = {}
        self.living = True
        self._told_s: float | None = None
        self._moving = Pace(self.began)
        self._comparing: Comparing | None = None
        self._stagings = [self.run.found.items[need.item].staging for need in self.needs]

    # -- calls --------------------------------------------------------------------------------------------------------

    def call(self, verb: str, timeout_s: float = LONGEST_S, **values: Any) -> Output:
        """One verb of the node's script, with what all of them need."""
        policy = self.run.fleet.delivery
        common = {
            "run_id": self.run.id,
            "lease_s": str(policy.lease_s),
            "holder": self.run.holder(),
            "hashers": str(policy.parallel * 2),
            "rate": str(max(1, int(policy.rate_mib_s * 1024))) if policy.rate_mib_s else "",
            "port": str(policy.port),
            "serving": "yes" if self.serves else "",
        }
        return call(self.host, verb, {**common, **values}, timeout_s)

    def must(self, verb: str, **values: Any) -> Output:
        """A verb without which the node cannot go on. Raises NodeFailed."""
        output = self.call(verb, **values)
        if output.reason is not None:
            raise NodeFailed(output.reason)
        return output

    @property
    def serves(self) -> bool:
        """Can others, or it itself, want something of this node in this run?"""
        lacking = {need.item for need in self.needs}
        elsewhere = any(node == self.name and key in lacking for node, key in self.run.found.sources)
        return elsewhere or len(self.run.taking_part) > 1

    # -- the story ----------------------------------------------------------------------------------------------------

    def bring(self) -> None:
        """All that this node lacks. Never raises for what the node did; the outcomes tell."""
        try:
            self._begin()
            self._adopt()
            self.run.pending.discard(self.name)
            self.run.changed()
            Transfers(self).take()
            for need in self.needs:
                self._finish(self.run.found.items[need.item])
        except NodeFailed as error:
            self._fail(str(error))
        except Exception as error:
            self._fail(f"{type(error).__name__}: {error}")
            raise
        finally:
            self.run.pending.discard(self.name)
            self.run.changed()

    def _fail(self, reason: str) -> None:
        self.run.swarm.drop(self.name)
        for need in self.needs:
            row = self.run.outcomes.get((self.name, need.item))
            if row is None or row.status not in ("delivered", "verified"):
                self._keep(need.item, "failed", reason)
        self.host.log(f"deliver: {reason}")

    def _keep(self, key: str, status: str, reason: str = "") -> None:
        item = self.run.found.items[key]
        sources = tuple(sorted(self.sources.get(key, ())))
        spent = round(time.monotonic() - self.began, 2)
        self.run.keep(Outcome(self.name, key, item.path, status, self.arrived.get(key, 0), spent, sources, reason))

    def _begin(self) -> None:
        items = self._items()
        addresses = [self.address(name) for name in self.run.taking_part]
        own = self.address(self.name)
        served = {
            item.key: self.run.found.sources.get((self.name, item.key), f"{item.staging}/files") for item in items
        }
        told = self.must(
            "begin",
            stagings=self._stagings,
            secret=self.run.secret if self.serves else "",
            address=own if _LITERAL.fullmatch(own) else "",
            allowed=" ".join(addresses) if all(map(_LITERAL.fullmatch, addresses)) else "",
            connections=str(self.run.fleet.delivery.serves * 2 + 2),
            item_keys=list(served),
            item_served=list(served.values()),
        )
        if self.needs and (told.value("waited") is not None or self.run.found.looks[self.name].lease is not None):
            self._look_again()
        lacking = {need.item for need in self.needs}
        for key in (key for node, key in self.run.found.sources if node == self.name):
            have = self.run.swarm.offer if key in lacking else self.run.swarm.hold
            have(self.name, self.run.bundles_of(self.run.found.items[key]))

    def _look_again(self) -> None:
        """Another delivery held this node when it was looked at: what lies there now is what that one left."""
        placement, before = self.run.fleet.placement(self.name), self.run.found.looks[self.name]
        look = look_at(self.host, request_for(placement, []))
        if isinstance(look, str):
            raise NodeFailed(look)
        self.run.found.looks[self.name] = look
        limit, keep = self.run.fleet.delivery.bundle_mib * MIB, int(self.run.fleet.rollout.min_free_gib * GIB)
        needs = []
        for item in self._lacking():
            need = need_of(item, look, limit, keep, before.folder(item.path).verified == item.digest)
            if need.refused:
                raise NodeFailed(need.refused)
            if need.action != "none":
                needs.append(need)
                continue
            self._keep(item.key, "unchanged")
            if item.image is not None:  # it is loaded, and its archive is gone
                self.run.swarm.missing[self.name].difference_update(self.run.bundles_of(item))
                continue
            self.run.swarm.hold(self.name, self.run.bundles_of(item))
            if self.serves:
                self.must("offer_place", key_served=item.key, path=item.path)
        self.needs = needs

    def address(self, name: str) -> str:
        """Where others reach that node."""
        return self.run.fleet.placement(name).node.address

    def _lacking(self) -> list[Item]:
        return [self.run.found.items[need.item] for need in self.needs]

    def _items(self) -> list[Item]:
        """What this node can give in this run, now or later."""
        given = [self.run.found.items[key] for node, key in self.run.found.sources if node == self.name]
        return [*self._lacking(), *given]

    def _adopt(self) -> None:
        """What lies there from before: files that arrived in an earlier run, and files that came by another way."""
        for need in self.needs:
            item = self.run.found.items[need.item]
            look = self.run.found.looks[self.name].folder(item.path)
            sizes = {file.path: file.bytes for file in item.manifest.files}
            staged = self._recheck(item, {path: n for path, n in look.staged.items() if sizes.get(path) == n})
            self._hold(item, staged)
            if look.there or need.action == "verify":
                self._compare(item, need, staged)

    def _hold(self, item: Item, there: dict[str, int]) -> None:
        numbers = present(self.run.groups(item), there)
        self.run.swarm.hold(self.name, [Bundle(item.key, number) for number in numbers])

    def _recheck(self, item: Item, staged: dict[str, int]) -> dict[str, int]:
        """Of the files that an earlier run gathered those that are still what was compared, or are compared now."""
        files = [file for file in item.manifest.files if file.path in staged]
        if not files:
            return {}
        self._comparing = Comparing(item.staging, sum(staged.values()), Pace(time.monotonic()))
        told = self.must("recheck", **of_item(item), **of_files(files))
        self._comparing = None
        self._say_wrong(item, item.staging, told)
        lost = {files[int(line[5:])].path for line in told.stdout.splitlines() if re.fullmatch(r"lost=\d+", line)}
        return {path: size for path, size in staged.items() if path not in lost}

    def _say_wrong(self, item: Item, place: str, told: Output) -> None:
        for line in _wrong(told)[:3]:
            self.host.log(f"{item.name}: {place}: {line}; it is fetched again")

    def _compare(self, item: Item, need: Need, staged: dict[str, int]) -> None:
        look = self.run.found.looks[self.name].folder(item.path)
        reader = self.run.found.looks[self.name].reader(item.path)
        sizes = {file.path: file.bytes for file in item.manifest.files}
        if need.action == "verify":
            files = list(item.manifest.files)
        else:
            files = [file for file in item.manifest.files if look.there.get(file.path) == sizes[file.path]]
        values = {**of_item(item), **of_files(files)}
        self._comparing = Comparing(item.path, sum(file.bytes for file in files), Pace(time.monotonic()))
        told = self.must("adopt", **values | ({"staging": ""} if reader else {}))
        self._comparing = None
        if told.value("adopted") == "yes":
            self.run.swarm.hold(self.name, self.run.bundles_of(item))
            if self.serves:
                self.must("offer_place", key_served=item.key, path=item.path)
            self._keep(item.key, "verified")
            return
        if reader is not None:
            wrong = _wrong(told)
            raise NodeFailed(
                f"{item.path}: {wrong[0] if wrong else 'not as its manifest says'}; the running engine of {reader} "
                "reads it, so nothing was replaced; deliver into another folder and change model"
            )
        self._say_wrong(item, item.path, told)
        kept = {int(line[5:]) for line in told.stdout.splitlines() if re.fullmatch(r"kept=\d+", line)}
        there = {file.path: file.bytes for place, file in enumerate(files) if place in kept}
        self._hold(item, there | staged)

    def _finish(self, item: Item) -> None:
        done = self.run.outcomes.get((self.name, item.key))
        if done is not None and done.status == "verified":
            return
        placed = self.must("place", **of_item(item))
        if (replaced := placed.value("replaced")) is not None:
            self.host.log(f"{item.name}: what was at {item.path} is now {replaced}")
        if item.image is not None:
            runtime = RUNTIMES[self.run.fleet.placement(self.name).node.runtime]
            values = {**of_item(item), "runtime_program": runtime, "reference": item.image}
            self.must("load", **values, archive_name=item.manifest.files[0].path)
        self._keep(item.key, "delivered")
        self.host.log(f"{item.name}: delivered and verified at {item.image or item.path}")

    def tell(self) -> None:
        """Renew the lease; say how far this node is, and how long it will take at this pace."""
        wanted = sum(need.bytes for need in self.needs)
        output = self.call("poll", timeout_s=30, stagings=[item.staging for item in self._lacking()])
        counts = [int(line.split()[-1]) for line in output.stdout.splitlines() if re.fullmatch(r"bytes=\d+ \d+", line)]
        done = min(wanted, sum(counts) if counts else 0)
        now = time.monotonic()
        early = self._told_s is not None and now - self._told_s < TELL_EVERY_S
        if not wanted or self.run.swarm.finished(self.name) or early:
            return
        self._told_s = now
        if self._comparing is not None:  # nothing arrives meanwhile
            self.host.log(f"deliver: {self._comparing.told(now, int(output.value('compared') or 0))}")
            self._moving.seen(now, done)
            return
        self.host.log(f"deliver: {self._moving.told(now, done, wanted)}")

    def end(self) -> None:
        """Nothing of this run stays on the node but what was placed, and what a next run can go on with."""
        self.living = False
        self.call("end", timeout_s=60, archives=ARCHIVES, stagings=self._stagings)


def _wrong(told: Output) -> list[str]:
    """What is not as its manifest says, in the node's words."""
    return [line.partition("=")[2] for line in told.stdout.splitlines() if line.startswith("wrong=")]
