"""Whether the target's log is still the one that a lane has written: one partition's memory of leader epochs. Pure.

A leader that was elected uncleanly lacks the end of the log, and may have a former leader's unacknowledged batches in
its place. A broker that remembers the writer refuses what does not follow; one that does not, since it never had the
batches or their records are old, accepts it over the gap. The first batch of an epoch is accepted by either. So before
anything goes to a leader of another epoch, that leader is asked where the epoch of the last acknowledged batch ends in
its log.

A lane learns of an election by the answers to what it sends. While a partition is idle there are none, and a broker can
lose the leadership, truncate its log, and lead again, or lose power and come back. So the leader is asked as well
before the first batch after a pause, with the leader epoch that the lane believes in: one that was elected meanwhile
refuses the question. That holds for the very first batch too, when nothing was acknowledged yet: an answer to what is
sent does not tell in which leader epoch it was taken, and one that ended since would be put on record.

Invariants:
    * Nothing is sent while `doubted`, and nothing first after a pause while `stale`.
    * What an answer adds counts for the leader epoch in which the batch was sent, however late the answer comes.
    * An answer about the log is held against what was known when the leader was asked: more may be acknowledged while
      it is on its way.
    * An epoch that is not the one asked for, or ends too early, is a log that lost something. Where a broker has raised
      the epoch without an election that may be wrong: then the takeover finds everything, and goes on.

References: KIP-101, KIP-320 (log truncation detection); ``LeaderEpochFileCache.endOffsetFor``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sparkmirror.model import UNKNOWN, Reached

NO_EPOCH = UNKNOWN.leader_epoch

PAUSE_SECONDS = 1.0
"""For so long a leader that had everything surely still leads, or cannot be reached: an election that loses something
needs a broker to be fenced, another one to be elected, and the first to come back."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a leader was asked for.

    Attributes:
        reached: how far the log was known to go at that time.
        leader_epoch: of the leader that was asked.
    """

    reached: Reached
    leader_epoch: int

    def may_hide(self, epoch: int, end: int) -> bool:
        """Whether a log that has all that was known may go on behind that; the leader says where its epoch ends."""
        if self.reached.leader_epoch == NO_EPOCH:
            return True
        has_all = epoch == self.reached.leader_epoch and end >= self.reached.end
        return has_all and (end > self.reached.end or epoch != self.leader_epoch)


@dataclass(slots=True)
class Footing:
    """Of one partition.

    Attributes:
        reached: how far the target's log is known to go.
        leader_epoch: of the leader that is written to, or -1 while unknown.
    """

    reached: Reached = UNKNOWN
    leader_epoch: int = NO_EPOCH
    _verified: Question | None = None
    _known_at: float = -math.inf

    @property
    def doubted(self) -> bool:
        """Whether the leader has to be asked before anything is sent."""
        known, epoch = self.reached.leader_epoch, self.leader_epoch
        if known == epoch or NO_EPOCH in (known, epoch):
            return False
        return self._verified != self.question()

    def question(self) -> Question:
        """What to ask the leader for now, to be given back with its answer."""
        return Question(self.reached, self.leader_epoch)

    def stale(self, now: float) -> bool:
        """Whether the leader has to be asked before the first batch after a pause.

        Args:
            now: seconds on the clock of ``copy.lease``, which a sleeping machine does not stop.
        """
        return self.leader_epoch != NO_EPOCH and now - self._known_at > PAUSE_SECONDS

    def acknowledged(self, leader_epoch: int, end: int, sent_at: float) -> None:
        """A batch that was sent in ``leader_epoch``, at ``sent_at``, is in the log, up to the offset ``end``."""
        self._known_at = max(self._known_at, sent_at)
        if end > self.reached.end:
            self.reached = Reached(leader_epoch, end)

    def holds(self, asked: Question, leader_epoch: int, end: int, answered_at: float) -> bool:
        """Takes the leader's answer: the epoch that it has, and where that ends.

        What counts is when the answer came, since a broker that takes longer than a pause to answer would be asked for
        ever. `sparkmirror.copy.leaders` takes no answer that needed more than some seconds.

        Returns:
            whether its log has everything that was asked for; if so it is not doubted any more, unless another leader
            or more that was acknowledged came in the meantime.
        """
        known = asked.reached.leader_epoch != NO_EPOCH  # else only whether it still leads in the epoch was asked
        if known and (leader_epoch != asked.reached.leader_epoch or end < asked.reached.end):
            return False
        self._verified = asked
        if asked.leader_epoch == self.leader_epoch:
            self._known_at = max(self._known_at, answered_at)
        return True
