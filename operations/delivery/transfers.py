"""What one node lacks, bundle by bundle: who is asked, what came, and whom to blame where it did not."""

from typing import TYPE_CHECKING, Any

import gevent

from facts.shell import Output
from fleet.delivery.delivery import Item
from fleet.delivery.manifest import ManifestFile
from fleet.delivery.swarm import Bundle, Transfer
from operations.delivery.call import NodeFailed, of_files, of_item
from operations.delivery.look import urls_of
from operations.delivery.push import PushError, push
from operations.delivery.run import CONTROLLER, FromUrl

if TYPE_CHECKING:
    from operations.delivery.turn import Turn


class Transfers:
    """All transfers to one node in one run."""

    def __init__(self, turn: "Turn") -> None:
        self.turn, self.run = turn, turn.run

    def take(self) -> None:
        """All missing bundles, several at a time."""
        failures: list[NodeFailed] = []
        workers = [gevent.spawn(self._work, failures) for _ in range(self.run.fleet.delivery.parallel)]
        try:
            gevent.joinall(workers, raise_error=True)
        finally:
            gevent.killall(workers)
        if failures:
            raise failures[0]

    def _work(self, failures: list[NodeFailed]) -> None:
        """Transfers until all is there, or until one of the workers knows why this node cannot have it."""
        try:
            self._transfer_all(failures)
        except NodeFailed as error:
            failures.append(error)

    def _transfer_all(self, failures: list[NodeFailed]) -> None:
        swarm = self.run.swarm
        while not swarm.finished(self.turn.name) and not failures:
            transfer = swarm.next(self.turn.name)
            if transfer is not None:
                self._move(transfer)
                self.run.changed()
                continue
            lost = swarm.hopeless(self.turn.name) if not self.run.pending else frozenset()
            if lost:
                # Of many that went with one source the one that was on its way knows the reason.
                raise NodeFailed(self._why(min(lost, key=lambda one: (one not in self.run.troubles, one))))
            self.run.wait()

    def _why(self, bundle: Bundle) -> str:
        item, files = self.run.found.items[bundle.item], self.run.files(bundle)
        last = self.run.troubles.get(bundle, "no node that takes part has it")
        return f"nobody can give {files[0].path} of {item.name}: {last}"

    def _move(self, transfer: Transfer) -> None:
        """One bundle, verified. Raises NodeFailed where this node is the reason why not."""
        item, files = self.run.found.items[transfer.bundle.item], self.run.files(transfer.bundle)
        output = self._fetch(transfer, item)
        if output.reason is None:
            self.run.swarm.done(transfer)
            self.turn.sources.setdefault(item.key, set()).add(transfer.source)
            self.turn.arrived[item.key] = self.turn.arrived.get(item.key, 0) + sum(file.bytes for file in files)
            return
        blame = output.value("blame")
        if blame not in ("source", "content"):
            raise NodeFailed(output.reason)
        self.run.troubles[transfer.bundle] = f"{transfer.source}: {output.reason}"
        self.turn.host.log(f"{item.name}: {output.reason}, from {transfer.source}; another source is asked")
        if blame == "content":
            self.run.swarm.distrust(transfer)
        else:
            self.run.swarm.failed(transfer)
            gevent.sleep(0.5)

    def _fetch(self, transfer: Transfer, item: Item) -> Output:
        files = list(self.run.files(transfer.bundle))
        values = {**of_item(item), **of_files(files)}
        if transfer.source == CONTROLLER:
            return self._pushed(item, files, values)
        if transfer.source.startswith(FromUrl):
            return self.turn.call("pull", **values, how="curl", urls=urls_of(item, files))
        peer = self.turn.address(transfer.source)
        return self.turn.call(
            "pull", **values | {"key": item.key}, how="rsync", secret=self.run.secret, peer=_bracketed(peer)
        )

    def _pushed(self, item: Item, files: list[ManifestFile], values: dict[str, Any]) -> Output:
        left = self.run.found.looks[self.turn.name].folder(item.path).parts
        received = Output(stdout="")
        for again in (False, True):
            try:
                push(self.run.fleet.placement(self.turn.name).node, item, files, self.run.fleet.delivery.rate_mib_s)
            except PushError as error:
                return Output(stdout=f"blame={error.blame}", reason=str(error))
            received = self.turn.call("received", **values)
            if received.reason is None or again or not any(file.path in left for file in files):
                break  # else a part from an earlier run was wrong: once more, from its beginning
        return received


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address
