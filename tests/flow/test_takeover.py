"""What a takeover makes of records that are held against the source; on real clusters: `test_forged_batches`."""

from __future__ import annotations

import pytest

from sparkmirror.duties.copied_records import Held
from sparkmirror.events import Kind
from sparkmirror.flow.takeover import _behind_others
from sparkmirror.offsets.state import state_of
from sparkmirror.offsets.tail import Tail
from sparkmirror.offsets.takeover import Observed, Resume, decide
from tests.offsets.segments import records_of
from tests.offsets.test_takeover import PLACE, own, progress, segment


def observed() -> Observed:
    """Records up to sequence number 9 are in the log, and up to 3 on record."""
    known = progress(3, 103, 3)
    mapped = state_of([*records_of((segment(0, 100),)), known]).map_of(PLACE)
    tail = Tail(start=0, high_watermark=10, batches=(own(0, 0, 10),), since=0)
    return Observed(partition=PLACE, progress=known, map=mapped, ids=(7,), tail=tail, start=50)


@pytest.mark.parametrize(
    ("held", "lacks", "kind"),
    [
        (Held.SAME, False, None),
        (Held.GONE, False, None),
        (Held.CLEANED, False, None),
        (Held.OTHER, False, Kind.FORGED_BATCH),
        (Held.SAME, True, None),
        (Held.GONE, True, None),
        (Held.CLEANED, True, Kind.MAY_REPEAT),
        (Held.OTHER, True, Kind.MAY_REPEAT),
    ],
)
def test_a_log_with_other_records_than_the_map_has_goes_on_behind_the_record_on_record(
    held: Held, lacks: bool, kind: Kind | None
):
    believed = decide(observed())
    assert isinstance(believed, Resume)
    assert believed.position == 110
    decision = _behind_others(observed(), believed, held, lacks=lacks)
    if kind is None:
        assert decision is None
    else:
        assert decision is not None
        assert decision.event is not None
        assert (decision.position, decision.event.kind, decision.anew) == (104, kind, True)
