"""Up to where a source's log is what was copied of it, by the leader epochs of both, against a plain comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.offsets.source_history import (
    NOBODY_KNOWS,
    UNDEFINED,
    Alike,
    Begun,
    Compared,
    EpochEnd,
    Look,
    Looked,
    compare,
)

SENT = 1_000
"""Numbers of records that an application sends again, from here on."""


class Record(NamedTuple):
    """A record of a log: the leader epoch that took it, and which one it is."""

    epoch: int
    number: int


Log = Sequence[Record]


def leaders_answer(log: Log, epoch: int, newest: int) -> EpochEnd:
    """As ``LeaderEpochFileCache.endOffsetFor`` of a log whose leader has begun ``newest`` at its end."""
    starts: dict[int, int] = {}
    for offset, each in enumerate(log):
        starts.setdefault(each.epoch, offset)
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
    for offset, each in enumerate(copied):
        if offset >= begins:
            found.setdefault(each.epoch, offset)
    return tuple(Begun(epoch, offset) for epoch, offset in sorted(found.items()))


def looked_at(copied: Log, log: Log, look: Look, kept: int) -> Looked:
    """How records compare of which copies are left from the offset ``kept`` on."""
    assert look.first < look.end, "there is something to look at"
    assert look.epoch == UNDEFINED or look.end <= min(len(copied), len(log)), "on both sides"
    first, end = max(look.first, kept), min(look.end, len(log))
    if first >= end:
        return Looked(Alike.UNKNOWN, look.end)
    other = next((at for at in range(first, end) if content(copied[at]) != content(log[at])), None)
    if other == first:
        return Looked(Alike.OTHER, look.first, differs=True)
    return Looked(Alike.SAME, end) if other is None else Looked(Alike.SAME, other, differs=True)


def content(record: Record) -> tuple[int, int]:
    """What a reader sees of a record: one that is sent again is the same, whatever leader epoch takes it."""
    return (SENT, record.number) if record.number >= SENT else record


def found(
    copied: Log,
    log: Log,
    newest: int,
    *,
    begins: int = 0,
    epoch: int | None = None,
    kept: int = 0,
    history: Sequence[Begun] | None = None,
    certain: bool = True,
    restored: bool = False,
) -> EpochEnd:
    """Asks and looks until there is an answer."""
    answers: dict[int, EpochEnd] = {}
    looked: dict[int, Looked] = {}
    told = UNDEFINED
    for _ in range(100):
        finding = compare(
            Compared(
                history=history_of(copied, begins) if history is None else history,
                epoch=copied[-1].epoch if epoch is None else epoch,
                position=len(copied),
                certain=certain,
                restored=restored,
                newest=told,
                answers=answers,
                looked=looked,
            )
        )
        if isinstance(finding, EpochEnd):
            return finding
        if isinstance(finding, Look):
            assert finding.epoch not in looked, "it looks twice"
            looked[finding.epoch] = looked_at(copied, log, finding, kept)
            continue
        assert finding.epoch not in answers, "it asks twice"
        answers[finding.epoch] = leaders_answer(log, finding.epoch, newest)
        if answers[finding.epoch].end == UNDEFINED:
            told = newest
    raise AssertionError("it asks for ever")


def runs(*pairs: tuple[int, int], of: int = 0) -> list[Record]:
    """(epoch, records) to a log; records of different logs are different ones."""
    return [Record(epoch, of) for epoch, number in pairs for _ in range(number)]


def other(*pairs: tuple[int, int]) -> list[Record]:
    return runs(*pairs, of=1)


OLD = runs((0, 60))


@pytest.mark.parametrize(
    ("copied", "log", "newest", "point"),
    [
        pytest.param(runs((0, 10)), runs((0, 30)), 0, 30, id="nothing happened"),
        pytest.param(runs((0, 10)), runs((0, 10), (1, 5)), 2, 10, id="a clean election"),
        pytest.param(runs((0, 10)), runs((0, 7)) + other((1, 5)), 1, 7, id="a lost tail"),
        pytest.param(runs((0, 10), (1, 50)), runs((0, 10)) + other((0, 20), (2, 5)), 2, 10, id="a deposed leader"),
        pytest.param(runs((0, 10), (1, 50)), runs((0, 5)) + other((2, 90)), 2, 5, id="and had less"),
        pytest.param(runs((1, 10), (3, 9)), other((0, 4), (2, 30)), 4, 0, id="another history from the beginning on"),
        pytest.param(
            runs((0, 10), (2, 9)), runs((0, 10)) + other((0, 2), (1, 5), (3, 3)), 3, 10, id="epochs never met"
        ),
        pytest.param(OLD + runs((5, 50), (8, 40)), OLD + other((4, 140)), 4, 60, id="an older disk"),
        pytest.param(
            OLD + runs((5, 50), (8, 40)), OLD[:50] + other((5, 150)), 5, 50, id="which begins an epoch elsewhere"
        ),
        pytest.param(
            OLD + runs((5, 50), (8, 40)), OLD + runs((5, 50)) + other((6, 90)), 7, 110, id="and has all of one"
        ),
        pytest.param(
            OLD + runs((5, 50), (8, 40)), OLD + other((5, 150)), 5, 60, id="and begins one at the same offset"
        ),
        pytest.param(
            OLD + runs((5, 50), (6, 40)), OLD + other((5, 50), (6, 5)), 7, 60, id="and two of them, and has lost some"
        ),
        pytest.param(OLD + runs((5, 50)), OLD + other((5, 30)), 5, 60, id="and has not reached the position"),
        pytest.param(OLD + runs((5, 50)), OLD, 5, 60, id="and has nothing new"),
        pytest.param(runs((5, 50)), other((3, 90)), 4, 0, id="and no epoch that was copied"),
    ],
)
def test_the_two_part_where_their_records_do(copied, log, newest, point):
    assert found(copied, log, newest).end == point


def test_a_newest_epoch_without_a_record_does_not_matter():
    """The copy began at the end of the log under it, or was sent there; the leader that came then never heard of it."""
    assert found(runs((0, 10)), runs((0, 10), (8, 3)), 8, epoch=7) == EpochEnd(0, 10)


def test_who_knows_no_epochs_says_nothing():
    """Such as brokers that keep batches in an older format."""
    answers = {3: EpochEnd(UNDEFINED, UNDEFINED)}
    seen = Compared(history=(Begun(3, 0),), epoch=3, position=9, answers=answers)
    assert compare(seen) == NOBODY_KNOWS


def test_a_copy_that_began_in_the_midst_of_an_epoch_knows_its_first_records_there():
    copied, log = runs((3, 30), (4, 30), (5, 140), (6, 50)), runs((3, 30), (4, 30), (5, 90))
    assert found(copied, log + other((6, 90)), 6, begins=100).end == 150
    assert found(copied, log + other((5, 40)), 5, begins=100).end == 150, "of one epoch its records tell"
    assert found(copied, log[:50] + other((5, 250)), 5, begins=100).end == 0, "nothing is known of what lies before"


def test_what_was_left_out_by_an_order_is_known_by_its_epochs():
    """The copy ended at 100 and went on at 300; the source ends within what was left out."""
    copied = runs((0, 80), (2, 70), (4, 100), (6, 100))
    history = (Begun(0, 0), Begun(2, 80), Begun(4, 150), Begun(6, 250))
    assert found(copied, copied[:250] + other((7, 50)), 7, history=history, kept=300).end == 250
    assert found(copied, copied[:200] + other((7, 250)), 7, history=history, kept=300).end == 200
    deposed = copied[:150] + other((2, 40), (7, 250))
    assert found(copied, deposed, 7, history=history, kept=300).end == 150, (
        "what a deposed leader took was not left out"
    )


def test_where_no_copy_is_left_an_older_disk_is_believed_in_nothing_that_it_may_have_given_out_again():
    copied = runs((2, 60), (5, 50), (8, 40))
    restored = runs((2, 60), (5, 30)) + other((6, 90))
    assert found(copied, restored, 6, kept=140) == (6, 0, False)
    assert found(copied, runs((2, 50)) + other((5, 150)), 5, kept=140) == (5, 0, False)
    assert found(copied, restored, 6, begins=70, kept=140).end == 0
    assert found(copied, restored, 6, kept=80) == (5, 90, True), "some copies of the epoch are left"
    assert found(runs((0, 60), *((5, 50), (8, 40))), runs((0, 60), (5, 30)) + other((6, 90)), 6, kept=140) == (
        0,
        60,
        False,
    ), "the first epoch of any log"
    assert found(runs((2, 60), (5, 50)), restored, 6, begins=70, kept=140).end == 90, "nothing tells of an older disk"


def test_an_epoch_that_begins_where_the_disk_was_copied_is_another_one_though_its_copies_are_gone():
    """The log was copied while its broker was down, so that both histories go on at the same offset."""
    copied = runs((0, 100), (2, 100), (4, 53))
    assert found(copied, copied[:100] + other((2, 110), (3, 50)), 3, kept=200) == (0, 100, False)


@st.composite
def elections(draw: st.DrawFn) -> tuple[list[Record], list[Record], int]:
    """A common beginning, then what was copied and what the source has, under leader epochs of its own."""
    numbers = st.integers(1, 6)
    common = runs(*((epoch, draw(numbers)) for epoch in sorted(draw(st.sets(st.integers(0, 4), max_size=4)))))
    mine = sorted(draw(st.sets(st.integers(2, 7), min_size=0, max_size=3)))
    theirs = sorted(draw(st.sets(st.integers(3, 9), min_size=0, max_size=3)) - set(mine))
    last = common[-1].epoch if common else -1
    copied = [*common, *runs(*((epoch, draw(numbers)) for epoch in mine if epoch >= last), of=1)]
    log = [*common, *runs(*((epoch, draw(numbers)) for epoch in theirs if epoch > last), of=2)]
    return copied, log, draw(st.integers(1, 2)) + max([each.epoch for each in (*log, *copied)], default=0)


def first_difference(copied: Log, log: Log) -> int:
    """Where the two part, or the end of the shorter one."""
    pairs = zip(copied, log, strict=False)
    return next((at for at, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(copied), len(log)))


@given(elections())
def test_no_record_that_differs_is_left_behind_and_none_that_is_the_same_before_it(drawn):
    copied, log, newest = drawn
    if copied:
        assert min(found(copied, log, newest).end, len(copied)) == first_difference(copied, log)


@st.composite
def restores(draw: st.DrawFn) -> tuple[list[Record], list[Record], int, int]:
    """What was copied of a log, and the log since it is an older copy of itself that has given out epochs again.

    With the newest epoch of that log, and the offset from which on something was copied.
    """
    numbers = st.integers(0, 5)
    epochs = range(draw(st.integers(0, 2)), draw(st.integers(3, 6)))
    whole = runs(*((epoch, draw(numbers)) for epoch in epochs))
    stored = draw(st.integers(0, len(whole)))
    at = whole[stored - 1].epoch if stored else epochs[0]
    newest = draw(st.integers(at + 1, at + 3))
    log = [*whole[:stored], *runs(*((epoch, draw(numbers)) for epoch in range(at + 1, newest + 1)), of=1)]
    return whole, log, newest, draw(st.integers(0, max(0, len(whole) - 1)))


@given(restores())
def test_a_log_that_went_back_as_a_whole_is_never_believed_too_far(drawn):
    """And, where the copy has all of it, never too little either."""
    copied, log, newest, begins = drawn
    if not copied:
        return
    told = leaders_answer(log, copied[-1].epoch, newest)
    if told.epoch == copied[-1].epoch and told.end >= len(copied):
        return  # epochs say that nothing is missing
    point = min(found(copied, log, newest, begins=begins).end, len(copied))
    expected = first_difference(copied, log)
    assert point <= max(expected, begins)
    if begins == 0:
        assert point == expected or (point == 0 and log[:1] != copied[:1])


def sent(epoch: int, first: int, number: int, *, other: Sequence[int] = ()) -> list[Record]:
    """Records that an application has sent, or sends again; those at ``other`` places are not the same."""
    return [Record(epoch, 1 if each in other else SENT + each) for each in range(first, first + number)]


def test_an_epoch_that_was_given_out_again_is_the_same_up_to_the_first_record_that_differs():
    """An application has sent again what the restored source lacked, and then went on."""
    old = [*sent(0, 0, 60), *sent(5, 60, 50), *sent(8, 110, 40)]
    assert found(old, [*sent(0, 0, 60), *sent(5, 60, 30), *other((5, 90))], 5) == EpochEnd(5, 90)
    again = sent(5, 60, 50, other=[95])
    assert found(old, [*sent(0, 0, 60), *again, *other((5, 90))], 5) == EpochEnd(5, 95), "and the same again behind it"
    assert found(old, [*sent(0, 0, 60), *again, *other((6, 9))], 9) == EpochEnd(5, 95), "and has caught up"


@st.composite
def repeats(draw: st.DrawFn) -> tuple[list[Record], list[Record], int]:
    """A log that is an older copy of itself, and takes again some of what it had lost, at the same offsets."""
    numbers = st.integers(0, 6)
    epochs = range(draw(st.integers(0, 2)), draw(st.integers(3, 6)))
    whole: list[Record] = []
    for epoch in epochs:
        whole += sent(epoch, len(whole), draw(numbers))
    stored = draw(st.integers(0, len(whole)))
    log = whole[:stored]
    newest = (log[-1].epoch if log else epochs[0]) + draw(st.integers(1, 3))
    begun = log[-1].epoch + 1 if log else epochs[0] + 1
    changed = draw(st.lists(st.integers(0, 40), max_size=3)) if draw(st.booleans()) else range(1_000)
    for epoch in range(begun, newest + 1):
        log += sent(epoch, len(log), draw(numbers), other=changed)
    return whole, log, newest


@given(repeats())
def test_what_was_sent_again_is_believed_up_to_the_first_record_that_differs_in_its_epoch(drawn):
    """What is the same is there already. What is not may not be left out in the greatest epoch that both have."""
    copied, log, newest = drawn
    if not copied or leaders_answer(log, copied[-1].epoch, newest)[:2] >= (copied[-1].epoch, len(copied)):
        return
    met = found(copied, log, newest)
    first = next((at for at, each in enumerate(copied) if each.epoch >= met.epoch), len(copied))
    shared = range(first, min(met.end, len(copied), len(log)))
    assert all(content(copied[at]) == content(log[at]) for at in shared)


def test_a_restored_log_that_has_caught_up_is_seen_where_records_are_compared():
    copied = runs((0, 60), (5, 50))
    assert found(copied, runs((0, 60)) + other((5, 90)), 5).end == 150, "epochs say that nothing is missing"
    assert found(copied, runs((0, 60)) + other((5, 90)), 5, restored=True) == EpochEnd(0, 60)
    assert found(copied, copied + runs((5, 90)), 5, restored=True) == EpochEnd(5, 110)
    assert found(copied, copied + runs((5, 90)), 5, restored=True, kept=110) == EpochEnd(5, 110)


def test_a_position_whose_epoch_is_not_on_record_is_found_by_records():
    """The flow's topic has lost the begin of an epoch that was copied."""
    copied = runs((0, 100), (2, 60))
    known: dict[str, Any] = {"history": (Begun(0, 0),), "epoch": 0, "certain": False}
    assert found(copied, copied + runs((2, 9)), 2, **known) == EpochEnd(UNDEFINED, 160)
    assert found(copied, copied[:140] + other((3, 50)), 3, **known) == EpochEnd(UNDEFINED, 140)
    assert found(copied, copied[:130], 2, **known) == EpochEnd(UNDEFINED, 130)
    assert found(copied, copied[:100] + other((3, 90)), 3, **known) == EpochEnd(0, 100)
    assert found(copied, copied + runs((2, 9)), 2, kept=170, **known) == EpochEnd(0, 100, proven=False)
    lacks: dict[str, Any] = {"history": (Begun(0, 0),), "epoch": 2}
    assert found(copied, copied[:155] + other((3, 50)), 3, **lacks) == EpochEnd(UNDEFINED, 155), "a lane has met it"
    assert found(copied, copied + runs((2, 9)), 2, **(known | {"certain": True})) == EpochEnd(0, 100)
