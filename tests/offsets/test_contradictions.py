"""Records of the offset map that are sound one by one and contradict each other: nothing that looks them up ends by it.

Whoever may write to the internal topic can put them there. Offsets are wrong then, and no more than that.
"""

from __future__ import annotations

import itertools
import os
import random
import time

from sparkmirror.model import TopicPartition, Writer
from sparkmirror.offsets.bounds import Starts, bound
from sparkmirror.offsets.condensing import condense
from sparkmirror.offsets.holes import Holes, pack
from sparkmirror.offsets.records import Progress, parse
from sparkmirror.offsets.segments import SEQUENCES, MapRecord, Moved, Parted, Segments, Targets
from sparkmirror.offsets.state import JournalState

EXAMPLES = int(os.environ.get("SPARKMIRROR_EXAMPLES", "0"))
HERE = TopicPartition("orders", 7)
IDS = (1, 2)
LOOKED_UP = (0, 1, 5, 99, 2**31 - 1, 2**40)


class Chance(random.Random):
    """Draws records."""

    def number(self) -> int:
        return self.choice(
            (0, 1, 5, 100, SEQUENCES - 1, self.randrange(200), self.randrange(SEQUENCES), 2**62, 2**63 - 1)
        )

    def offset(self) -> int:
        return self.choice((-1, self.number(), self.number()))

    def holes(self) -> Holes:
        points = [(0, 0)]
        for _ in range(self.choice((0, 0, 1, 2, 4))):
            records, hole = self.choice((1, 2, 5, 1000)), self.choice((1, 2, 2**40))
            points.append((points[-1][0] + records, points[-1][1] + records + hole))
        return pack(*zip(*points, strict=True), thinned=self.random() < 0.3)

    def record(self) -> MapRecord | Progress:
        writer = Writer(producer_id=self.choice(IDS), epoch=self.randrange(3))
        sequence = self.number() % SEQUENCES
        segments = Segments(
            partition=HERE,
            writer=writer,
            sequence=sequence,
            source=self.number(),
            holes=self.holes(),
            anew=self.random() < 0.3,
            unguarded=self.random() < 0.3,
        )
        targets = Targets(partition=HERE, writer=writer, sequence=sequence, target=self.offset(), holes=self.holes())
        progress = Progress(
            partition=HERE,
            writer=writer,
            generation=self.randrange(3),
            position=self.offset(),
            next_sequence=self.offset(),
            sequence=self.offset(),
            source=self.offset(),
            target=self.offset(),
            settled=self.random() < 0.5,
        )
        parted = Parted(partition=HERE, writer=writer, source=self.offset())
        return self.choice(
            (segments, segments, targets, targets, progress, parted, Moved(partition=HERE, writer=writer))
        )


def drawn(chance: Chance) -> JournalState:
    state = JournalState()
    for one in [chance.record() for _ in range(chance.randint(1, 8))]:
        assert parse(one.key, one.value()) == one
        state.take(one)
    return state


def look_up(state: JournalState) -> None:
    """What take-overs, translations and the driver ask of a map."""
    own, progress = state.map_of(HERE), state.progress.get(HERE)
    state.endings()
    own.unguarded(progress, IDS)
    offsets = own.offsets(progress, IDS)
    for _ in itertools.islice(itertools.chain(offsets, offsets.settled()), 100):
        pass
    for at in LOOKED_UP:
        offsets.source_to_target(at), offsets.target_to_source(at), offsets.has(at, at + 5), offsets.is_exact(at)
        len(offsets.below(at)), offsets.before_target(at), offsets.writer_of(at)
    for pieces in map(own.pieces, own.writers(IDS)):
        assert pieces is not None
        pieces.last_settled(), pieces.ends
        for at in LOOKED_UP:
            pieces.source_of(at), pieces.target_of(at), pieces.count_at(at), pieces.is_exact(at)


def test_records_that_contradict_each_other_end_nothing_and_make_none_that_cannot_be_read():
    chance = Chance(time.time_ns() if EXAMPLES else 7)
    for _ in range(EXAMPLES or 600):
        state = drawn(chance)
        look_up(state)
        for budget in (0, 1 << 30):
            for one in condense(state, IDS, budget, neighbours=2, least=1).records:
                assert parse(one.key, one.value()) == one
        bound(state, {HERE: Starts(chance.choice((0, 5, 2**40)), chance.choice((None, 0, 7, 2**40)))}, IDS)
