"""Whether the target's log is still the one that a lane has written: one partition's memory of leader epochs. Pure.

A leader that was elected uncleanly lacks the end of the log, and may have a former leader's unacknowledged batches in
its place. A broker that remembers the writer refuses what does not follow; one that does not, since it never had the
batches or their records are old, accepts it over the gap. The first batch of an epoch is accepted by either. So before
anything goes to a leader of another epoch, that leader is asked where the epoch of the last acknowledged batch ends in
its log.

Invariants:
    * Nothing is sent while `doubted`.
    * What an answer adds counts for the leader epoch in which the batch was sent, however late the answer comes.
    * An epoch that is not the one asked for, or ends too early, is a log that lost something. Where a broker has raised
      the epoch without an election that may be wrong: then the takeover finds everything, and goes on.

References: KIP-101, KIP-320 (log truncation detection); ``LeaderEpochFileCache.endOffsetFor``.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.model import UNKNOWN, Reached

NO_EPOCH = UNKNOWN.leader_epoch


@dataclass(slots=True)
class Footing:
    """Of one partition.

    Attributes:
        reached: how far the target's log is known to go.
        leader_epoch: of the leader that is written to, or -1 while unknown.
    """

    reached: Reached = UNKNOWN
    leader_epoch: int = NO_EPOCH
    _verified: tuple[Reached, int] | None = None

    @property
    def doubted(self) -> bool:
        """Whether the leader has to be asked before anything is sent."""
        known, epoch = self.reached.leader_epoch, self.leader_epoch
        if known == epoch or NO_EPOCH in (known, epoch):
            return False
        return self._verified != (self.reached, epoch)

    def acknowledged(self, leader_epoch: int, end: int) -> None:
        """A batch that was sent in ``leader_epoch`` is in the log, up to the offset ``end``."""
        if end > self.reached.end:
            self.reached = Reached(leader_epoch, end)

    def holds(self, leader_epoch: int, end: int) -> bool:
        """Takes the leader's answer: the epoch that it has, and where that ends.

        Returns:
            whether its log has everything; if so it is not doubted any more.
        """
        if leader_epoch != self.reached.leader_epoch or end < self.reached.end:
            return False
        self._verified = (self.reached, self.leader_epoch)
        return True
