"""What follows from the writers that a coordinator handed out."""

from __future__ import annotations

import pytest

from sparkmirror.model import Writer
from sparkmirror.offsets.writers import (
    KEEP_ALIVE_SECONDS,
    REACH,
    Unfenceable,
    WayToFence,
    came_since,
    can_be_kept_alive,
    check,
    due,
    forgotten,
    last_before,
    must_rotate,
    newest_epochs,
    ran_since,
    runs_between,
    was_given_before,
    way_to_fence,
)


def writer(epoch: int, producer_id: int = 7) -> Writer:
    return Writer(producer_id=producer_id, epoch=epoch)


@pytest.mark.parametrize(
    ("given", "ended", "between"),
    [
        ([writer(5), writer(9, 8)], [writer(4), writer(8, 8)], False),
        ([writer(6), writer(9, 8)], [writer(4), writer(8, 8)], True),
        ([writer(5), writer(10, 8)], [writer(4), writer(8, 8)], True),
        ([writer(4), writer(9, 8)], [writer(4), writer(8, 8)], True),  # the coordinator has forgotten, which is odd
        ([writer(0, 9), writer(9, 8)], [writer(4), writer(8, 8)], False),  # another id: nothing tells
        ([writer(5)], [writer(4), writer(8, 8)], False),
        ([writer(5), writer(9, 8)], [], False),
    ],
)
def test_who_got_a_later_epoch_than_the_next_one_finds_that_a_run_was_there(given, ended, between):
    assert runs_between(given, ended) == between


@pytest.mark.parametrize(
    ("held", "ended", "since"),
    [
        ([writer(4), writer(8, 8)], [writer(4), writer(8, 8)], False),
        ([writer(4), writer(9, 8)], [writer(4), writer(8, 8)], True),
        ([writer(3), writer(8, 8)], [writer(4), writer(8, 8)], True),  # the coordinator has forgotten, which is odd
        ([writer(0, 9), writer(8, 8)], [writer(4), writer(8, 8)], False),  # another id: nothing tells
        ([writer(5)], [], False),
        ([], [writer(4)], False),
    ],
)
def test_a_coordinator_that_knows_another_epoch_than_the_clean_end_tells_of_a_run_before_it_is_asked_for_one(
    held, ended, since
):
    assert ran_since(held, ended) == since


@pytest.mark.parametrize(
    ("epoch", "rotate", "way", "kept"),
    [
        (0, False, WayToFence.RAISE, True),
        (31_999, False, WayToFence.RAISE, True),
        (32_000, True, WayToFence.RAISE, True),
        (32_765, True, WayToFence.RAISE, True),
        (32_766, True, WayToFence.SPEND, False),
    ],
)
def test_an_id_is_changed_before_its_epochs_end_and_fenced_with_the_last(
    epoch: int, rotate: bool, way: WayToFence, kept: bool
):
    assert (must_rotate(writer(epoch)), way_to_fence(writer(epoch)), can_be_kept_alive(writer(epoch))) == (
        rotate,
        way,
        kept,
    )


@pytest.mark.parametrize(
    ("on_record", "given", "verdict"),
    [
        (None, 7, None),
        (7, 7, None),
        (6, 7, Unfenceable(old=6)),
        (7, 6, Unfenceable(old=7)),
        (0, 7, Unfenceable(old=0)),
    ],
    ids=["first of all", "the same id again", "another id", "another id, though smaller", "the id 0 is one too"],
)
def test_another_id_than_the_one_on_record_leaves_its_writers_behind(
    on_record: int | None, given: int, verdict: Unfenceable | None
):
    assert check(writer(3, given), on_record) == verdict


@pytest.mark.parametrize(
    ("given", "before"),
    [(writer(5), False), (writer(4), True), (writer(3), True), (writer(0, 8), True), (writer(0, 9), False)],
    ids=["the next", "the newest again", "an older one again", "the first one again", "of an id that is not on record"],
)
def test_an_epoch_that_is_not_above_all_that_are_known_was_given_before(given: Writer, before: bool):
    newest = newest_epochs([writer(2), writer(4), writer(3), writer(0, 8)])
    assert newest == {7: 4, 8: 0}
    assert was_given_before(given, newest) == before


@pytest.mark.parametrize(
    ("leaders", "newest"),
    [
        ([], None),
        ([4], None),
        ([5], 5),
        ([4, 7, 6], 7),
        ([5 + REACH], 5 + REACH),
        ([6 + REACH], None),
        ([6, 32_766], 6),
    ],
)
def test_an_epoch_that_leaders_know_was_forgotten_or_is_forged_where_it_is_far_ahead(
    leaders: list[int], newest: int | None
):
    assert forgotten(writer(5), leaders) == newest


def test_what_a_writer_copied_before_the_first_start_on_record_is_told_by_its_epoch():
    before = last_before((6, 7, 8), [writer(5), writer(0, 8)])
    assert before == (writer(32_767, 6), writer(4))
    newer = {one: came_since(one, (6, 7, 8), before) for one in (writer(9, 6), writer(4), writer(5), writer(0, 8))}
    assert list(newer.values()) == [False, False, True, True]
    assert not came_since(writer(9, 5), (6, 7, 8), before), "it is another's"


def test_a_group_is_due_six_hours_after_its_last_operation():
    renewed = {3: 1_000.0, 0: 1_000.5, 5: 999.0}
    assert due(renewed, 1_000.0) == ()
    assert due(renewed, 1_000.0 + KEEP_ALIVE_SECONDS) == (3, 5)
    assert due(renewed, 1_001.0 + KEEP_ALIVE_SECONDS) == (0, 3, 5)
    assert KEEP_ALIVE_SECONDS == 21_600
