"""When a position on record is believed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.flow.trust import Seen, distrust
from sparkmirror.model import NO_OFFSET, UNKNOWN, Reached, TopicPartition, Writer
from sparkmirror.offsets.records import Progress

PROGRESS = Progress(
    partition=TopicPartition("orders", 3),
    writer=Writer(producer_id=1, epoch=0),
    generation=1,
    position=500,
    next_sequence=77,
    sequence=76,
    source=499,
    target=450,
    target_id="aa",
    settled=True,
)
SEEN = Seen(progress=PROGRESS, mapped=True, end=451, target_id="aa")

BEGUN = replace(PROGRESS, sequence=NO_OFFSET, source=NO_OFFSET, target=NO_OFFSET, reached=UNKNOWN)
"""Nothing is copied, by a record that may be an older one than the internal topic had."""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"end": 900}, ""),
        ({"target_id": ""}, ""),
        ({"progress": replace(PROGRESS, target_id="")}, ""),
        ({"progress": replace(PROGRESS, target=NO_OFFSET), "end": 0}, ""),
        ({"progress": None, "mapped": False}, ""),
        ({"progress": None}, "begun"),
        ({"progress": None, "mapped": False, "lost_runs": True}, "nothing is on record"),
        ({"progress": None, "mapped": False, "lost_runs": True, "end": None}, "nothing is on record"),
        ({"progress": None, "mapped": False, "lost_runs": True, "end": 0}, ""),
        ({"progress": None, "mapped": False, "unexplained": True}, "has batches of the flow"),
        ({"exact_after": 1}, "cleanly"),
        ({"exact_after": 1, "progress": replace(PROGRESS, generation=2)}, ""),
        ({"progress": replace(PROGRESS, settled=False)}, "not acknowledged"),
        ({"handed_out": True}, "handed out"),
        ({"handed_out": True, "progress": None, "mapped": False}, "handed out"),
        ({"target_id": "bb"}, "made anew"),
        ({"end": None}, "not known"),
        ({"end": 450}, "lost its tail"),
        ({"end": 0}, "lost its tail"),
        ({"progress": replace(PROGRESS, reached=Reached(2, 460)), "end": 460}, ""),
        ({"progress": replace(PROGRESS, reached=Reached(2, 460)), "end": 459}, "lost its tail"),
        ({"progress": replace(PROGRESS, reached=Reached(2, 460)), "end": 461}, "written since"),
        ({"progress": replace(PROGRESS, reached=Reached(2, 460)), "end": 461, "sole_writer": False}, ""),
        ({"progress": BEGUN, "end": 0}, ""),
        ({"progress": BEGUN, "end": 60}, "written since"),
    ],
)
def test_a_position_is_believed_only_if_nothing_was_owed_and_the_target_still_has_it(change, reason):
    told = distrust(replace(SEEN, **change))
    assert bool(told) == bool(reason)
    assert reason in told
