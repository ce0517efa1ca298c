"""Two logs compared: what the target has beyond a stored position, and when nothing can be said."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.mm2.tail import (
    AMBIGUOUS,
    NO_ANCHOR,
    NOT_EQUAL,
    Matched,
    Seen,
    Undecided,
    match_below,
    match_from_end,
    match_from_sync,
)


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
        ("cdefgh", "cdef", 15, Matched(position=14, last=(13, 103))),  # less than was stored: it has lost its end
        ("cdef   gh", "cdef", 17, Matched(position=17, last=(13, 103))),  # not so where only markers lie between
        ("cdef", "cdef", 17, Matched(position=17, last=(13, 103))),
        ("cdefgh", "cdxf", 12, NOT_EQUAL),
        ("cd", "cdef", 12, NOT_EQUAL),
        ("xdefgh", "cdef", 12, NOT_EQUAL),
        ("", "cdef", 12, NOT_EQUAL),
    ],
)
def test_from_an_offset_sync_on_both_logs_must_agree_to_the_end(source, target, stored, expected):
    assert match_from_sync((10, 100), log(source, 10), log(target, 100), stored, reaches=True) == expected


def test_a_sync_whose_record_is_gone_says_nothing():
    assert match_from_sync((9, 100), log("cdef", 10), log("cde", 100), 12, reaches=True) == NOT_EQUAL


def test_how_much_is_lost_is_not_known_to_be_nothing_where_the_source_was_not_read_so_far():
    assert match_from_sync((10, 100), log("cdef", 10), log("cdef", 100), 17, reaches=False) == Matched(
        position=14, last=(13, 103)
    )


LONG = "abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize(
    ("source", "target", "whole", "expected"),
    [
        (LONG, LONG[:16], True, Matched(position=16, last=(15, 15))),
        (LONG, "--" + LONG[:16], False, Matched(position=16, last=(15, 17))),  # other records before
        (LONG, LONG[4:16], False, Matched(position=16, last=(15, 11))),
        (LONG, LONG, True, Matched(position=26, last=(25, 25))),  # nothing is lost
        (LONG[:16] + "   ", LONG[:16], True, Matched(position=26, last=(15, 15))),  # but markers
        (LONG, "z" * 4 + LONG[:8], False, NOT_EQUAL),  # too few agree
        (LONG + LONG, LONG, False, AMBIGUOUS),
        (LONG + LONG, LONG, True, Matched(position=26, last=(25, 25))),
        ("a" * 26, "a" * 16, False, AMBIGUOUS),
        (LONG, LONG[:15] + "-", True, NOT_EQUAL),
        (LONG, "", True, NOT_EQUAL),
    ],
)
def test_a_target_that_has_lost_its_end_is_found_below_the_stored_position(source, target, whole, expected):
    stored = max(len(source), 26)
    assert match_below(log(source), log(target), stored, whole=whole, reaches=True) == expected


def test_a_record_that_happens_to_lie_at_the_stored_position_too_is_not_sure():
    found = match_from_end(log("0123456789x" + "abcdefghijx"), log("fghijx"), 22, whole=False)
    assert found == Matched(position=22, last=(21, 5))
    found = match_from_end(log("0123456789x" + "abcdefghijx"), log("0123456789x"), 22, whole=False)
    assert found == Matched(position=22, last=(21, 10), sure=False)


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


@given(st.text("abc", max_size=30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 10), st.booleans())
def test_what_is_found_below_the_stored_position_is_what_the_target_has(records, copied, kept, foreign, whole):
    """The target had the first ``copied`` records, and has the first ``kept`` of them."""
    kept = min(kept, copied := min(copied, len(records)))
    before = "" if whole else "".join(random.Random(foreign).choices("abc", k=foreign))
    source, target = log(records)[:copied], log(before + records[:kept])
    found = match_below(source, target, copied, whole=whole, reaches=True)
    if isinstance(found, Matched) and (whole or not foreign):
        assert found.position == kept
