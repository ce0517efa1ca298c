"""Up to where a source's log is what was copied of it, by the leader epochs of both, against a plain comparison."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.offsets.source_history import NOBODY_KNOWS, UNDEFINED, Ask, Begun, Compared, EpochEnd, compare

Log = Sequence[int]
"""The leader epoch of the record at each offset."""


def leaders_answer(log: Log, epoch: int, newest: int) -> EpochEnd:
    """As ``LeaderEpochFileCache.endOffsetFor`` of a log whose leader has begun ``newest`` at its end."""
    starts: dict[int, int] = {}
    for offset, each in enumerate(log):
        starts.setdefault(each, offset)
    starts.setdefault(newest, len(log))
    if epoch == max(starts):
        return EpochEnd(epoch, len(log))
    higher = [each for each in sorted(starts) if each > epoch]
    if not higher:
        return EpochEnd(UNDEFINED, UNDEFINED)
    at_most = [each for each in starts if each <= epoch]
    return EpochEnd(max(at_most) if at_most else epoch, starts[higher[0]])


def history_of(copied: Log, begins: int = 0) -> tuple[Begun, ...]:
    found: dict[int, int] = {}
    for offset, epoch in enumerate(copied):
        if offset >= begins:
            found.setdefault(epoch, offset)
    return tuple(Begun(epoch, offset) for epoch, offset in sorted(found.items()))


def found(copied: Log, log: Log, newest: int, *, begins: int = 0, epoch: int | None = None) -> EpochEnd:
    """Asks until there is an answer."""
    answers: dict[int, EpochEnd] = {}
    told = UNDEFINED
    for _ in range(100):
        finding = compare(
            Compared(
                history=history_of(copied, begins),
                epoch=copied[-1] if epoch is None else epoch,
                position=len(copied),
                newest=told,
                answers=answers,
            )
        )
        if not isinstance(finding, Ask):
            return finding
        assert finding.epoch not in answers, "it asks twice"
        answers[finding.epoch] = leaders_answer(log, finding.epoch, newest)
        if answers[finding.epoch].end == UNDEFINED:
            told = newest
    raise AssertionError("it asks for ever")


def runs(*pairs: tuple[int, int]) -> list[int]:
    """(epoch, records) to a log."""
    return [epoch for epoch, number in pairs for _ in range(number)]


@pytest.mark.parametrize(
    ("copied", "log", "newest", "point"),
    [
        pytest.param(runs((0, 10)), runs((0, 30)), 0, 30, id="nothing happened"),
        pytest.param(runs((0, 10)), runs((0, 10), (1, 5)), 2, 10, id="a clean election"),
        pytest.param(runs((0, 10)), runs((0, 7), (1, 5)), 1, 7, id="a lost tail"),
        pytest.param(runs((0, 10), (1, 50)), runs((0, 30), (2, 5)), 2, 10, id="a deposed leader came back"),
        pytest.param(runs((0, 10), (1, 50)), runs((0, 5), (2, 90)), 2, 5, id="and had less"),
        pytest.param(runs((1, 10), (3, 9)), runs((0, 4), (2, 30)), 4, 0, id="another history from the beginning on"),
        pytest.param(runs((0, 10), (2, 9)), runs((0, 12), (1, 5), (3, 3)), 3, 10, id="epochs that the copy never met"),
        pytest.param(runs((0, 60), (5, 50), (8, 40)), runs((0, 60), (4, 140)), 4, 60, id="an older disk"),
        pytest.param(runs((0, 60), (5, 50), (8, 40)), runs((0, 50), (5, 150)), 5, 50, id="which begins an epoch anew"),
        pytest.param(runs((0, 60), (5, 50), (8, 40)), runs((0, 60), (5, 90)), 5, 110, id="and has all of one"),
    ],
)
def test_the_two_part_where_their_records_do(copied, log, newest, point):
    assert found(copied, log, newest).end == point


def test_a_newest_epoch_without_a_record_does_not_matter():
    """The copy began at the end of the log under it, or was sent there; the leader that came then never heard of it."""
    assert found(runs((0, 10)), runs((0, 10), (8, 3)), 8, epoch=7) == (0, 10)


def test_who_knows_no_epochs_says_nothing():
    """Such as brokers that keep batches in an older format."""
    answers = {3: EpochEnd(UNDEFINED, UNDEFINED)}
    seen = Compared(history=(Begun(3, 0),), epoch=3, position=9, answers=answers)
    assert compare(seen) == NOBODY_KNOWS


def test_a_copy_that_began_in_the_midst_of_an_epoch_does_not_know_where_that_begins():
    """The source has begun that epoch elsewhere since it was restored: nothing of it is believed."""
    assert found(runs((3, 30), (4, 30), (5, 140), (6, 50)), runs((3, 30), (4, 20), (5, 250)), 5, begins=100).end == 50


@st.composite
def histories(draw: st.DrawFn, *, again: bool = False) -> tuple[list[int], list[int], int]:
    """A common beginning, then what was copied and what the source has; ``again``: under the same epochs, it may be."""
    numbers = st.integers(1, 6)
    common = runs(*((epoch, draw(numbers)) for epoch in sorted(draw(st.sets(st.integers(0, 4), max_size=4)))))
    mine = sorted(draw(st.sets(st.integers(2, 7), min_size=0, max_size=3)))
    theirs = sorted(draw(st.sets(st.integers(3, 9), min_size=0, max_size=3)) - (set() if again else set(mine)))
    last = common[-1] if common else -1
    copied = [*common, *runs(*((epoch, draw(numbers)) for epoch in mine if epoch >= last))]
    log = [*common, *runs(*((epoch, draw(numbers)) for epoch in theirs if epoch > last))]
    return copied, log, draw(st.integers(1, 2)) + max([*log, *copied, 0])


@given(histories())
def test_no_record_that_differs_is_left_behind_and_none_that_is_the_same_before_it(drawn):
    copied, log, newest = drawn
    if not copied:
        return
    same = next((at for at, (mine, theirs) in enumerate(zip(copied, log, strict=False)) if mine != theirs), None)
    expected = min(len(copied), len(log)) if same is None else same
    point = min(found(copied, log, newest).end, len(copied))
    assert point == expected


@given(histories(again=True), st.integers(0, 9), st.integers(0, 12))
def test_a_log_that_went_back_as_a_whole_is_never_believed_too_far(drawn, newest, begins):
    """What the records of an epoch are, epochs do not tell: those that begin at the same offset count as the same."""
    copied, log, _ = drawn
    newest = max([newest, *log])
    if not copied or newest >= copied[-1]:
        return
    same = next((at for at, (mine, theirs) in enumerate(zip(copied, log, strict=False)) if mine != theirs), None)
    expected = min(len(copied), len(log)) if same is None else same
    begins = min(begins, len(copied) - 1)
    theirs = {*history_of(log), Begun(newest, len(log))}
    if any(one in theirs and one.offset >= expected for one in history_of(copied, begins)):
        return  # the same number at the same offset again, for other records
    assert found(copied, log, newest, begins=begins).end <= max(expected, begins)
