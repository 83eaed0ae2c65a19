"""How far one node is with work that is counted in bytes, at what pace, and how long it will take at that pace."""

from dataclasses import dataclass

from fleet.delivery.delivery import GIB, MIB


@dataclass
class Pace:
    """Seconds of some clock, and the bytes that were done by then, when it was told last."""

    at_s: float
    done: int = 0

    def seen(self, now_s: float, done: int) -> None:
        """What is done now; a pace counts from here on."""
        self.at_s, self.done = now_s, done

    def told(self, now_s: float, done: int, wanted: int) -> str:
        """`1.20 of 3.40 GiB (35 %), 800 MiB/s, 0.1 min left`; the pace is that since it was told last."""
        pace = (done - self.done) / max(now_s - self.at_s, 0.001)
        left = f"{(wanted - done) / pace / 60:.1f} min left" if pace > 0 else "time left unknown"
        self.seen(now_s, done)
        share = done * 100 // wanted if wanted else 100
        return f"{done / GIB:.2f} of {wanted / GIB:.2f} GiB ({share} %), {max(pace, 0) / MIB:.0f} MiB/s, {left}"


@dataclass
class Comparing:
    """A folder that is read on the node and compared with its manifest."""

    path: str
    wanted: int
    """Bytes of the files that are read."""
    pace: Pace

    def told(self, now_s: float, done: int) -> str:
        """How far it is; `done`: bytes of the files that were read to their end."""
        return (
            f"{self.pace.told(now_s, min(done, self.wanted), self.wanted)}: reads and compares what lies at {self.path}"
        )
