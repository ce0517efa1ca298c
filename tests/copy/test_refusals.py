"""What a partition says of a record that its target refuses: where it lies at the source."""

from __future__ import annotations

import pytest

from sparkmirror.offsets.segments import SEQUENCES
from tests.copy.making import batch, partition, take

INVALID_RECORD = 87


@pytest.mark.parametrize(("record", "source"), [(0, 0), (1, 1), (2, 10), (4, 12), (5, 13), (6, 40)])
@pytest.mark.parametrize("sequence", [0, SEQUENCES - 4])
def test_a_refused_record_of_a_merged_batch_is_named_with_its_own_offset(sequence: int, record: int, source: int):
    copy = partition(sequence=sequence)
    take(copy, batch(0, 2), batch(10, 3), batch(13, 1), batch(40, 2))
    merged = copy.next_batch()
    assert merged is not None
    assert (merged.count, copy.next_batch()) == (8, None)
    copy.refused(merged, INVALID_RECORD, "no key", record)
    assert copy.error.startswith(f"source offset {source}: ")
    assert copy.error.endswith("[no key]")


def test_holes_in_batches_behind_it_do_not_count():
    copy = partition()
    take(copy, batch(0, 2, size=40_000), batch(10, 2, size=40_000))
    first, second = copy.next_batch(), copy.next_batch()
    assert first is not None
    assert second is not None
    copy.refused(first, INVALID_RECORD, "", 1)
    assert copy.error.startswith("source offset 1: ")
