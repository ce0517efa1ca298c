"""Where offsets in copies that the flow back made lead to on the cluster that they came from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.duties.upstream_offsets import translated
from sparkmirror.model import NO_OFFSET, Reached, TopicPartition, Writer
from sparkmirror.offsets.group_records import UpstreamOffset
from sparkmirror.offsets.inherited import Inherited
from sparkmirror.offsets.map import OffsetMap
from sparkmirror.offsets.records import Progress
from tests.failover.test_moves import mapped

ORDERS = TopicPartition("orders", 0)
OFFSETS = mapped((10, 100, 10), (25, 110, 5), position=32)
PROGRESS = Progress(
    partition=ORDERS, writer=Writer(producer_id=1, epoch=1), generation=1, position=32, next_sequence=15
)
FENCED = replace(PROGRESS, reached=Reached(end=116))
"""A fence has left a marker behind the last copied record, at 115."""


@pytest.mark.parametrize(
    ("offsets", "committed", "progress", "expected"),
    [
        (OFFSETS, 105, PROGRESS, UpstreamOffset(15, "RECORD")),
        (OFFSETS, 110, PROGRESS, UpstreamOffset(25, "RECORD")),
        (OFFSETS, 3, PROGRESS, UpstreamOffset(10, "FIRST")),
        (OFFSETS, 115, PROGRESS, UpstreamOffset(32, "END")),
        (OFFSETS, 116, FENCED, UpstreamOffset(32, "END")),
        (OFFSETS, 120, FENCED, UpstreamOffset(32, "END", exact=False)),
        (OFFSETS, 116, PROGRESS, UpstreamOffset(32, "END", exact=False)),
        (mapped((0, 0, 0), position=NO_OFFSET), 4, None, UpstreamOffset(NO_OFFSET, "UNSETTLED", exact=False)),
    ],
)
def test_an_offset_leads_to_the_record_that_the_copy_was_made_of_and_never_beyond_the_map(
    offsets: OffsetMap, committed, progress, expected
):
    assert translated(offsets, committed, progress, None) == expected


def test_what_mirror_maker_2_copied_has_no_exact_place():
    inherited = Inherited(partition=ORDERS, spans=((0, 10),), end=100, time_ms=1)
    assert translated(OFFSETS, 50, PROGRESS, inherited) == UpstreamOffset(NO_OFFSET, "NOT_EXACT", exact=False)
