"""Which answers about leader epochs are believed: one broker alone does not tell that a log went back as a whole."""

from __future__ import annotations

from sparkmirror.kafka.epochs import Asking, CopiedLog
from sparkmirror.kafka.leaders import Leader
from sparkmirror.offsets.source_history import NOBODY_KNOWS, UNDEFINED, Alike, Ask, Begun, EpochEnd, Look, Looked

UNKNOWN_EPOCH = EpochEnd(UNDEFINED, UNDEFINED)
COPIED = CopiedLog(epoch=8, position=150, history=(Begun(7, 0), Begun(8, 100)))


def test_an_epoch_that_all_brokers_are_below_is_of_a_log_that_went_back():
    asking = Asking(COPIED)
    assert asking.finding() == Ask(8)
    assert asking.take(8, UNKNOWN_EPOCH, Leader(1, 7))
    assert asking.finding() == Ask(7)
    assert asking.take(7, EpochEnd(7, 130), None)
    assert asking.finding() == Look(7, 0, 100)
    asking.looked[7] = Looked(Alike.UNKNOWN, 150)
    assert asking.finding() == Ask(6), "where 7 begins"
    assert asking.take(6, EpochEnd(6, 0), None)
    assert asking.finding() == EpochEnd(7, 0, proven=False), "nothing was compared, so nothing is believed"


def test_a_deposed_leader_is_not_believed():
    """It does not know the epoch of its successor, of whom other brokers do."""
    asking = Asking(COPIED)
    assert asking.take(8, UNKNOWN_EPOCH, Leader(2, 8))
    assert asking.finding() == Ask(8), "asked again: of the new leader by now"
    assert asking.take(8, EpochEnd(8, 170), None)
    assert asking.finding() == EpochEnd(8, 170)


def test_a_log_that_has_no_epochs_tells_nothing():
    asking = Asking(COPIED)
    assert asking.take(8, UNKNOWN_EPOCH, Leader(2, 9))
    assert asking.take(8, UNKNOWN_EPOCH, Leader(2, 9))
    assert asking.finding() == NOBODY_KNOWS


def test_leaders_that_change_between_the_questions_tell_nothing_now():
    asking = Asking(COPIED)
    assert asking.take(8, UNKNOWN_EPOCH, Leader(1, 7))
    assert asking.take(7, UNKNOWN_EPOCH, Leader(2, 9))
    assert asking.finding() == Ask(7)
    assert not asking.take(7, UNKNOWN_EPOCH, Leader(2, 9))
