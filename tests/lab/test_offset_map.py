from __future__ import annotations

import base64

import pytest

from sparkmirror.errors import LabError
from sparkmirror.lab.offset_map import Entries, segments, translate


def segment(producer: int, epoch: int, sequence: int, source: int, target: int | None) -> Entries:
    segments: Entries = {("segments", "t", 0, producer, epoch, sequence): {"source": source}}
    targets: Entries = {("targets", "t", 0, producer, epoch, sequence): {"target": target}}
    return segments | targets


def test_what_a_later_epoch_says_holds_from_its_first_offset_on() -> None:
    entries = segment(7, 0, 0, 0, 0) | segment(7, 0, 50, 60, 50) | segment(7, 1, 0, 40, 41)
    assert segments(entries, "t") == {0: [(0, 0), (40, 41)]}


def test_a_producer_id_that_was_registered_later_wins_whatever_its_epoch() -> None:
    entries = segment(9, 0, 0, 5, 100) | segment(3, 4, 0, 0, 0)
    assert segments(entries, "t", [3, 9]) == {0: [(0, 0), (5, 100)]}
    assert segments(entries, "t", [9, 3]) == {0: [(0, 0)]}


def test_an_epoch_of_which_nothing_is_left_hides_nothing() -> None:
    gone = segment(7, 0, 0, 0, 0) | segment(7, 1, 0, 40, None) | segment(7, 2, 0, 60, 61)
    assert segments(gone, "t") == {0: [(0, 0), (60, 61)]}
    anew: Entries = {
        key: value | {"anew": True} if (key[0], key[4]) == ("segments", 1) else value for key, value in gone.items()
    }
    assert segments(anew, "t") == {0: [(0, 0), (40, None), (60, 61)]}
    assert segments(segment(7, 0, 0, 0, 0) | segment(7, 1, 0, 40, None), "t") == {0: [(0, 0), (40, None)]}


def test_other_topics_and_records_of_other_kinds_are_passed_over() -> None:
    entries: Entries = segment(7, 0, 0, 0, 0) | {("segments", "u", 0, 7, 0, 0): {"source": 0}, ("life",): {}}
    assert segments(entries, "t") == {0: [(0, 0)]}


def test_the_place_of_every_record_is_compared() -> None:
    assert translate("t", {0: [(0, 10), (7, 12)]}, {0: [0, 1, 7, 8]}, {0: [10, 11, 12, 13]}) == 4


@pytest.mark.parametrize(
    ("pieces", "there", "words"),
    [
        pytest.param({0: [(0, 10)]}, [10, 11, 12], "source offset 7 lies at 12", id="a hole that is not in the map"),
        pytest.param({0: [(1, 11)]}, [10, 11, 12], "no segment at or below source offset 0", id="begins too late"),
        pytest.param({0: [(0, None)]}, [10, 11, 12], "the segment at 0 was never settled", id="without a target"),
        pytest.param({}, [10, 11, 12], "no segment", id="nothing on record"),
        pytest.param({0: [(0, 10)]}, [10, 11], "3 records against 2", id="a record is missing"),
    ],
)
def test_a_record_that_lies_elsewhere_is_named(
    pieces: dict[int, list[tuple[int, int | None]]], there: list[int], words: str
) -> None:
    with pytest.raises(LabError, match=words):
        translate("t", pieces, {0: [0, 1, 7]}, {0: there})


def test_what_is_packed_is_read_byte_by_byte() -> None:
    """Ten records and a hole of one, three times; three records and a hole of five; and what others wrote behind 15."""
    packed = {"source": 40, "last": [33, 41], "holes": base64.b64encode(bytes([2, 41, 14, 5, 3])).decode()}
    entries: Entries = {
        ("segments", "t", 0, 7, 0, 5): packed,
        ("targets", "t", 0, 7, 0, 5): {"target": 100},
        ("targets", "t", 0, 7, 0, 20): {"target": 130},
    }
    begins = [(40, 100), (51, 110), (56, 130), (62, 135), (73, 145), (81, 148)]
    assert segments(entries, "t") == {0: begins}
