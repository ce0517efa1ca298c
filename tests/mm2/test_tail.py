"""Two logs compared: what the target has beyond a stored position, and when nothing can be said."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.mm2.offset_syncs import OffsetSync
from sparkmirror.mm2.tail import (
    AMBIGUOUS,
    NO_ANCHOR,
    NOT_EQUAL,
    Matched,
    Seen,
    Undecided,
    match_from_end,
    match_from_sync,
)
from sparkmirror.model import TopicPartition

PLACE = TopicPartition("orders", 0)


def log(text: str, first: int = 0) -> list[Seen]:
    """A log in which equal letters are equal records; a space is an offset without a record."""
    return [Seen(first + n, ord(one), one.encode()) for n, one in enumerate(text) if one != " "]


@pytest.mark.parametrize(
    ("source", "target", "stored", "whole", "expected"),
    [
        ("abcdef", "abc", 3, True, Matched(position=3, last=(2, 2))),  # clean
        ("abcdef", "abcde", 3, True, Matched(position=5, last=(4, 4))),  # two beyond
        ("abcdef", "abcdef", 3, True, Matched(position=6, last=(5, 5))),  # all
        ("abcdef", "abc", 0, True, Matched(position=3, last=(2, 2))),  # nothing stored yet
        ("abcdef", "", 0, True, Matched(position=0)),  # nothing copied yet
        ("ab cd ef", "abcd", 2, True, Matched(position=5, last=(4, 3))),  # markers in the source
        ("abcdef", "xyzab", 2, False, Matched(position=2, last=(1, 4))),  # other records before
        ("abcabc", "abc", 3, True, Matched(position=3, last=(2, 2))),  # equal records, told apart by what is before
        ("abcabcd", "abcabc", 3, True, Matched(position=6, last=(5, 5))),
        ("aaaaaa", "aaaa", 2, False, AMBIGUOUS),
        ("aaaaaaaa", "aaa", 5, False, AMBIGUOUS),  # the target may be shorter than what lies before
        ("aaaaaa", "aaaa", 0, True, Matched(position=4, last=(3, 3))),  # the whole log counts
        ("baaaaa", "baaa", 2, True, Matched(position=4, last=(3, 3))),
        ("abcdef", "abcx", 3, True, NOT_EQUAL),  # somebody else wrote
        ("abcdef", "abcdd", 3, True, NOT_EQUAL),  # a batch was sent twice
        ("abcdef", "abd", 3, True, NOT_EQUAL),  # compaction
        ("cdef", "abcd", 0, False, NO_ANCHOR),  # the source has lost what was copied before
        ("abcdef", "", 3, False, Undecided("the target has no records to compare with")),
        ("abcdef", "ab", 0, False, NO_ANCHOR),
        ("abcdef", "ab", 3, True, NOT_EQUAL),  # the target has less than was stored
    ],
)
def test_the_end_of_the_target_is_found_around_the_stored_position(source, target, stored, whole, expected):
    assert match_from_end(log(source), log(target), stored, whole=whole) == expected


def test_times_that_the_targets_broker_sets_are_not_compared():
    untimed = [one._replace(timestamp=None) for one in log("abcd")]
    assert match_from_end(log("abcdef"), untimed, 3, whole=True) == Matched(position=4, last=(3, 3))
    other = [one._replace(timestamp=1) for one in log("abcd")]
    assert match_from_end(log("abcdef"), other, 3, whole=True) == NOT_EQUAL


@pytest.mark.parametrize(
    ("source", "target", "stored", "expected"),
    [
        ("cdefgh", "cdef", 12, Matched(position=14, last=(13, 103))),
        ("cdefgh", "cdef", 14, Matched(position=14, last=(13, 103))),
        ("aaaaaa", "aaaa", 12, Matched(position=14, last=(13, 103))),  # equal records, counted
        ("c d efgh", "cdef", 12, Matched(position=16, last=(15, 103))),
        ("cdefgh", "cdef", 15, NOT_EQUAL),  # less than was stored: one of both is wrong
        ("cdefgh", "cdxf", 12, NOT_EQUAL),
        ("cd", "cdef", 12, NOT_EQUAL),
        ("xdefgh", "cdef", 12, NOT_EQUAL),
        ("", "cdef", 12, NOT_EQUAL),
    ],
)
def test_from_an_offset_sync_on_both_logs_must_agree_to_the_end(source, target, stored, expected):
    sync = OffsetSync(partition=PLACE, upstream=10, downstream=100)
    assert match_from_sync(sync, log(source, 10), log(target, 100), stored) == expected


def test_a_sync_whose_record_is_gone_says_nothing():
    sync = OffsetSync(partition=PLACE, upstream=9, downstream=100)
    assert match_from_sync(sync, log("cdef", 10), log("cde", 100), 12) == NOT_EQUAL


@given(st.text("abc", max_size=30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 10), st.booleans())
def test_whatever_is_decided_is_true(records, copied, stored, foreign, whole):
    """The target has the first ``copied`` records; a decision must say that, or there is none."""
    copied = min(copied, len(records))
    stored = min(stored, copied)
    before = "" if whole else "".join(random.Random(foreign).choices("abc", k=foreign))
    found = match_from_end(log(records), log(before + records[:copied]), stored, whole=whole)
    if isinstance(found, Matched) and (whole or stored):
        assert found.position <= copied or records[copied : found.position] == ""
        assert found.position >= stored
