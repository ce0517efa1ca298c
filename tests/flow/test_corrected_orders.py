"""An order to go back, its correction, and an internal topic that has lost its end since the first: nobody skips."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from sparkmirror.offsets.orders import MoveOrder
from sparkmirror.offsets.records import SourceEpoch
from sparkmirror.offsets.translation import Translated, translate
from tests.flow.story import Step, Story, holes
from tests.offsets.test_lost_begins import Journal
from tests.offsets.world import PLACE


@dataclass(slots=True)
class Corrected(Story):
    """A partition that is copied from further back, some of it, and then from where it was.

    Attributes:
        whole: where the journal is not cut, since what is there was written at once.
    """

    whole: list[range] = field(default_factory=list)

    @property
    def journal(self) -> Journal:
        assert isinstance(self.state, Journal)
        return self.state

    def _plan(self, *, begin: bool) -> None:
        at = len(self.journal.entries)
        Story._plan(self, begin=begin)
        self.whole.append(range(at + 1, len(self.journal.entries)))

    def copied_up_to(self) -> None:
        for seed in range(20):
            self.do(Step("finish", seed))

    def order(self, to: int) -> None:
        self._start_if_at_rest()
        order = MoveOrder(
            partition=PLACE, to=to, topic_id=self.topic_id, time_ms=1, by="me", leader_epoch=self.source_epoch
        )
        self.state.take(order)
        self._drain()
        self._start_if_at_rest()

    def lose(self, least: int) -> None:
        """The topic loses its end, but what is before ``least``; a lane says once more where it is, and all die."""
        entries = self.journal.entries
        ends = [at for at in range(least, len(entries)) if not any(at in some for some in self.whole)]
        at = self.chance.choice(ends)
        epochs = [one for one in entries[at:] if isinstance(one, SourceEpoch)]
        self.state = self.journal.first_ones(at)
        for one in epochs:
            self.state.take(one)
        if self.running:
            self.budget = -1
            self._publish()
            self._die()
        self.rest = None
        self._begin_run()
        self.in_order = False


def skipped(story: Story) -> list[tuple[int, Translated, list[int]]]:
    """Groups that are put behind all copies of records which they have not read."""
    progress = story.state.progress[PLACE]
    mapped, copies = story.state.map_of(PLACE).offsets(progress, story.ids), story.copies()
    found = []
    for committed in range(story.position):
        led = translate(mapped, committed)
        assert isinstance(led, Translated)
        behind = [source for source, there in copies.items() if source >= committed and max(there) < led.offset]
        if behind:
            found.append((committed, led, behind))
    return found


@pytest.mark.parametrize("seed", range(120))
def test_nobody_skips_what_lies_between_an_order_back_whose_end_is_lost_and_its_correction(seed: int):
    chance = Random(seed)
    kept = [*holes(chance, chance.randint(8, 40), 0, seed % 2 * 4), True]
    story = Corrected(kept=kept, chance=chance, topic_id="s1", target_id="t1", every=seed % 2 * 4, state=Journal())
    story.copied_up_to()
    was = story.position
    story.chance = chance
    story.order(chance.randint(0, max(0, was - 4)))
    ordered = len(story.journal.entries)
    story.copy_some(chance.randint(1, 2))
    story.do_grow()
    story.order(was)
    story.copy_some(chance.randint(1, 3))
    story.lose(ordered)
    story.copied_up_to()
    assert skipped(story) == []
