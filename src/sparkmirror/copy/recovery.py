"""The recovery point of one partition while a lane copies it; the rules are those of ``offsets.recovery``.

At most one answer is waited for: a copy that is always a little behind reaches the end of that one in a moment, and the
next answer is taken then. So nothing grows, and the point is as old as the copy takes, not as the records are.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.offsets.recovery import UNKNOWN_MS, Answer, recovery_ms


@dataclass(slots=True)
class Recovery:
    """Follows one partition.

    Attributes:
        point_ms: the recovery point, or `UNKNOWN_MS`.
    """

    point_ms: int = UNKNOWN_MS
    _asked_ms: int = UNKNOWN_MS
    _awaited: Answer | None = None

    def answered(self, answer: Answer) -> None:
        """The source has answered; before what it brought is copied."""
        if answer.asked_ms == UNKNOWN_MS:
            return
        self._asked_ms = max(self._asked_ms, answer.asked_ms)
        if self._awaited is None:
            self._awaited = answer

    def reached(self, position: int, newest_ms: int) -> None:
        """The target has all below ``position``; the newest timestamp that was copied is ``newest_ms``, or -1."""
        self.point_ms = recovery_ms(
            self.point_ms, position=position, answer=self._awaited, newest_ms=newest_ms, asked_ms=self._asked_ms
        )
        if self._awaited is not None and position >= self._awaited.end:
            self._awaited = None
