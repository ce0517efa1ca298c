"""What becomes of a batch that the target did not acknowledge: one pure table.

An idempotent batch may be sent again while the broker remembers its producer: it knows its last five batches again.
Brokers forget a producer by the times of its records (``ProducerStateManager.removeExpiredProducers``), so a batch of
old records is *unguarded*: sent again after it was appended, it may be appended twice.

Invariants:
    * An unguarded batch that may have been appended is never sent again: the partition is given back, and whoever takes
      it over reads in the target's log how far the lane got.
    * Only the oldest batch without an answer can tell why it was refused: those behind it are refused for being out of
      order. They wait for it.
    * A code that says that the oldest is not the next in sequence, or that its writer is fenced, gives the partition
      back: what the lane believes of the target is wrong. Do not "fix" this by sending on from what the broker expects.
"""

from __future__ import annotations

from enum import Enum

from sparkmirror.kafka.codes import Advice, advice, may_be_appended


class Retry(Enum):
    """What to do with a batch after a refusal."""

    RESEND = "the same bytes go again, in order"
    WAIT = "the same, but its own refusal means nothing: the oldest decides"
    GIVE_BACK = "the partition stops; only the target's log tells where it goes on"
    GIVE_UP = "the partition stops with a clear error"


def decide(code: int, *, oldest: bool, guarded: bool) -> Retry:
    """Decides by the error code.

    Args:
        code: of the broker's answer, or NETWORK_EXCEPTION for an answer that never came.
        oldest: whether no batch sent before it is unacknowledged.
        guarded: whether the broker remembers its producer for sure.

    Raises:
        ValueError: 0 is no refusal.
    """
    if code == 0:
        raise ValueError("a batch that was acknowledged is not sent again")
    if not guarded and may_be_appended(code):
        return Retry.GIVE_BACK
    return _OLDEST[advice(code)] if oldest else _LATER[advice(code)]


_OLDEST = {
    Advice.RETRY: Retry.RESEND,
    Advice.REFRESH: Retry.RESEND,
    Advice.GIVE_BACK: Retry.GIVE_BACK,
    Advice.GIVE_UP: Retry.GIVE_UP,
}
_LATER = {
    Advice.RETRY: Retry.RESEND,
    Advice.REFRESH: Retry.RESEND,
    Advice.GIVE_BACK: Retry.WAIT,
    Advice.GIVE_UP: Retry.WAIT,
}
