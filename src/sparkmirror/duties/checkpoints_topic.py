"""MirrorMaker 2's checkpoints topic on the target of a flow: what it says now, and writing to it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from sparkmirror.duties.duty import Sides
from sparkmirror.duties.groups import GroupPlace
from sparkmirror.duties.mirror_topics import NOT_ALLOWED, CreateTopic, create, exists, with_remedy
from sparkmirror.errors import BrokerError
from sparkmirror.kafka.journal import Journal
from sparkmirror.kafka.stored_records import StoredRecord
from sparkmirror.mm2.checkpoints import Checkpoint, read_checkpoint, read_key
from sparkmirror.naming import policy_for
from sparkmirror.offsets.foreign import LONGEST, Flaw, Foreign

log = logging.getLogger(__name__)


class CheckpointsTopic:
    """The topic of one flow, followed from round to round.

    Attributes:
        name: of the topic.
        newest: what it says, by group and partition of the target; as of the newest `follow`.
    """

    def __init__(self, sides: Sides) -> None:
        flow = sides.flow
        self.name = policy_for(flow.policy, flow.source.alias).checkpoints_topic(flow.source.alias)
        self.newest: dict[GroupPlace, Checkpoint] = {}
        self._sides = sides
        self._journal = Journal(sides.target, self.name)
        self._next = 0
        self._foreign = Foreign()

    def follow(self) -> bool:
        """Reads what is new; whether there is such a topic.

        Raises:
            SparkmirrorError: it cannot be read.
        """
        timeout_ms = self._sides.flow.admin_timeout_ms
        if not exists(self._sides.target, self.name, timeout_ms):
            self.newest, self._next = {}, 0
            return False
        following = self._sides.target.run(self._journal.read_bytes, self._next, self._take_all, timeout_ms)
        if following < self._next:  # it was deleted and made anew
            self.newest = {}
            following = self._sides.target.run(self._journal.read_bytes, 0, self._take_all, timeout_ms)
        self._next = following
        return True

    @property
    def creation(self) -> CreateTopic:
        """What makes it, where it is not there."""
        flow = self._sides.flow
        return CreateTopic(
            cluster=flow.target.alias,
            topic=self.name,
            replication_factor=flow.groups.checkpoints_replication_factor,
            key="checkpoints.topic.replication.factor",
        )

    def create(self, creation: CreateTopic) -> None:
        """Makes it.

        Raises:
            SparkmirrorError: it cannot be created.
        """
        create(self._sides.target, creation, self._sides.flow.admin_timeout_ms)

    def write(self, checkpoints: Iterable[Checkpoint]) -> None:
        """Writes checkpoints, all or, when it fails, some of them.

        Raises:
            SparkmirrorError: they cannot be written.
        """
        pairs = [(checkpoint.key(), checkpoint.value()) for checkpoint in checkpoints]
        try:
            if pairs:
                self._sides.target.run(self._journal.append, pairs, self._sides.flow.admin_timeout_ms)
        except BrokerError as failure:
            if failure.code in NOT_ALLOWED:
                remedy = f"allow WRITE on Topic {self.name} to this user, or set emit.checkpoints.enabled=false"
                raise with_remedy(failure, self.name, remedy) from failure
            raise

    def _take_all(self, records: Sequence[StoredRecord]) -> None:
        for offset, key, value in records:
            self._take(offset, key, value)

    def _take(self, offset: int, key: bytes, value: bytes | None) -> None:
        try:
            place = GroupPlace(*read_key(key))
            if value is None:
                self.newest.pop(place, None)
            else:
                self.newest[place] = read_checkpoint(key, value)
        except ValueError:
            if value is not None and self._foreign.note(repr(key[:LONGEST]), offset, Flaw.VALUE):
                log.warning("%s", self._foreign.line(f"cluster {self._sides.target.alias}, {self.name}", Flaw.VALUE))
