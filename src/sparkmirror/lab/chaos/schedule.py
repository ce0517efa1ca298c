"""What is done when: a pure function of the seed.

A fault names what it wants in terms that hold on any machine: a moment, a side, a number that picks the victim among
those that are there, a duration. So the same seed gives the same schedule everywhere, and a run can be done again; what
the victims are doing at that moment is up to the machine.

Invariants: every kind occurs before any kind occurs a second time more than the others; faults are in the order of
their moments.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final


class Kind(StrEnum):
    """A kind of fault."""

    KILL_WORKER = "kill -9 of a lane's Python worker"
    KILL_DRIVER = "kill -9 of the driver"
    KILL_DRIVER_JVM = "kill -9 of the driver's JVM"
    KILL_EXECUTOR = "kill -9 of an executor"
    ZOMBIE = "a lane's worker stopped until it is replaced, then continued"
    SECOND_DRIVER = "a second driver started by mistake"
    STOP_BROKER = "a broker stopped (SIGTERM) and started"
    KILL_BROKER = "kill -9 of a broker, then started"
    UNCLEAN = "unclean election on the target, with loss of data"
    UNCLEAN_BACK = "a leader of the target is paused, and comes back by an unclean election with what only it had"
    DISK_FULL = "the disk of a target broker is full"
    CUT = "connections cut"
    SLOW = "the line becomes slow"
    HOLD = "bytes wait on the line"
    HALF_OPEN = "bytes vanish on the line, connections stand"
    BROKER_CLOCK = "the clock of a broker steps"
    HEALED_STOP = "a copied topic stops and goes on in other lanes, then the driver is stopped (SIGTERM)"
    TORN_IDLE = "the target loses data while nothing is written, after a clean restart of the driver"


class Side(StrEnum):
    """A cluster of the laboratory; both are source and target."""

    A = "a"
    B = "b"


class Resource(StrEnum):
    """What only one fault at a time may touch."""

    MIRROR = "mirror"
    BROKERS_A = "brokers of a"
    BROKERS_B = "brokers of b"
    LINES_A = "lines to a"
    LINES_B = "lines to b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        number: counts from 1.
        at_s: seconds from the start of the run; it may have to wait for what another fault still holds.
        kind: of fault.
        side: the cluster, for faults of brokers and lines.
        pick: in [0, 1), chooses the victim among those that are there.
        lasts_s: seconds until it is undone, where that is not decided by what happens.
        amount: of a step of a clock in seconds, or a delay or a pause in milliseconds.
        ways: 1 to the broker, 2 from the broker, 3 both; for what is done to the bytes of a line. For a healed stop: 1
            no worker is paused, else those of the lanes that ran before it.
    """

    number: int
    at_s: float
    kind: Kind
    side: Side
    pick: float
    lasts_s: float
    amount: float
    ways: int

    @property
    def resources(self) -> tuple[Resource, ...]:
        """What it holds while it is done, in the order of `Resource`."""
        if self.kind is Kind.TORN_IDLE:
            return Resource.MIRROR, self.resource
        return (self.resource,)

    @property
    def resource(self) -> Resource:
        """What it waits for its turn at: faults of the same one are done in the order of the schedule."""
        if self.kind in _OF_BROKERS:
            return Resource.BROKERS_A if self.side is Side.A else Resource.BROKERS_B
        if self.kind in _OF_LINES:
            return Resource.LINES_A if self.side is Side.A else Resource.LINES_B
        return Resource.MIRROR

    @property
    def detail(self) -> str:
        """The rest, in words."""
        return f"side {self.side}, pick {self.pick}, lasts {self.lasts_s} s, amount {self.amount}, ways {self.ways}"


_UNCLEAN: Final = frozenset({Kind.UNCLEAN, Kind.UNCLEAN_BACK, Kind.TORN_IDLE})
_OF_BROKERS: Final = frozenset({Kind.STOP_BROKER, Kind.KILL_BROKER, Kind.DISK_FULL, Kind.BROKER_CLOCK} | _UNCLEAN)
_OF_LINES: Final = frozenset({Kind.CUT, Kind.SLOW, Kind.HOLD, Kind.HALF_OPEN})
_ON_THE_TARGET: Final = frozenset({Kind.DISK_FULL} | _UNCLEAN)
"""Only the cluster with the small disk and the topics that allow it."""

_LASTS_S: Final = {
    Kind.STOP_BROKER: (0.5, 8.0),
    Kind.KILL_BROKER: (0.5, 8.0),
    Kind.DISK_FULL: (3.0, 10.0),
    Kind.CUT: (0.2, 8.0),
    Kind.SLOW: (5.0, 20.0),
    Kind.HOLD: (2.0, 20.0),
    Kind.HALF_OPEN: (5.0, 30.0),
    Kind.BROKER_CLOCK: (5.0, 20.0),
    Kind.HEALED_STOP: (0.0, 8.0),  # after it went on; the lanes that it left end within a shift
    Kind.TORN_IDLE: (0.0, 10.0),  # after the restart; idle partitions are looked at every 30 s
}
"""At least and at most; the others last until something has happened."""

_AMOUNT: Final = {
    Kind.SLOW: (50.0, 800.0),
    Kind.BROKER_CLOCK: (-2_700.0, 2_700.0),  # an hour and more ahead, a broker refuses the records of its time
    Kind.HEALED_STOP: (800.0, 1_800.0),
}
_FIRST_S: Final = 3.0


def schedule(seed: int, faults: int, seconds: float, kinds: Collection[Kind] = tuple(Kind)) -> tuple[Fault, ...]:
    """The faults of a run.

    Args:
        seed: everything follows from it.
        faults: how many.
        seconds: within which they begin.
        kinds: that can be made here; their order does not matter.
    """
    dice = random.Random(seed)
    chosen = list(islice(_turns(dice, [kind for kind in Kind if kind in kinds]), faults))
    moments = sorted(dice.uniform(_FIRST_S, max(seconds, _FIRST_S)) for _ in chosen)
    return tuple(
        _fault(dice, number, at_s, kind)
        for number, (at_s, kind) in enumerate(zip(moments, chosen, strict=True), start=1)
    )


def _turns(dice: random.Random, kinds: Sequence[Kind]) -> Iterator[Kind]:
    """Every kind once in a random order, then again in another."""
    while kinds:
        turn = list(kinds)
        dice.shuffle(turn)
        yield from turn


def _fault(dice: random.Random, number: int, at_s: float, kind: Kind) -> Fault:
    """Throws the same number of dice whatever the kind, so that one kind's ranges do not change the others' luck."""
    side, pick, lasts, amount, ways = (dice.random() for _ in range(5))
    shortest, longest = _LASTS_S.get(kind, (0.0, 0.0))
    least, most = _AMOUNT.get(kind, (0.0, 0.0))
    return Fault(
        number=number,
        at_s=round(at_s, 2),
        kind=kind,
        side=Side.B if kind in _ON_THE_TARGET or side < 0.5 else Side.A,
        pick=round(pick, 6),
        lasts_s=round(shortest + lasts * (longest - shortest), 2),
        amount=round(least + amount * (most - least), 1),
        ways=1 + int(ways * 3),
    )
