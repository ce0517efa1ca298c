"""One try of the fuzz: the bytes of an answer, and what the flow and the target ask of it.

A case is all that a try depends on, so a line of the corpus is enough to do it again.
"""

from __future__ import annotations

import base64
import random
import zlib
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

from sparkmirror.batches import Codec, TargetTopic

LIMIT: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is asked of an answer.

    Attributes:
        start: the position.
        until: copy nothing from this source offset on, or -1.
        aborted: (producer id, first offset) of aborted transactions; without any everything is read.
        loops: producer ids whose batches are dropped.
        broker_time: whether the target sets the time itself.
        codec: what the target's batches are compressed with; -1 leaves that as it is.
        enforced: whether the target's broker compresses with it what comes otherwise.
        is_far: whether the target is a tenth of a second away.
        limit: max.message.bytes of the target.
        batch_size: of merging.
        decompression_limit: the most bytes that a batch may decompress to.
        sequence: of the first new record.
        part, most: which records of a batch are poured by themselves.
    """

    start: int = 0
    until: int = -1
    aborted: tuple[tuple[int, int], ...] = ()
    loops: tuple[int, ...] = ()
    broker_time: bool = False
    codec: int = -1
    enforced: bool = False
    is_far: bool = False
    limit: int = LIMIT
    batch_size: int = LIMIT
    decompression_limit: int = LIMIT
    sequence: int = 0
    part: int = 0
    most: int = 3

    def target(self) -> TargetTopic:
        """The topic that the batches are made for."""
        return TargetTopic(
            log_append_time=self.broker_time,
            max_message_bytes=self.limit,
            codec=None if self.codec < 0 else Codec(self.codec),
            enforced=self.enforced and self.codec >= 0,
        )

    @classmethod
    def drawn(cls, rng: random.Random) -> Setting:
        """Anything; most of it as usual."""
        start = rng.choice([0, 0, 0, 1, 2, 3, 5, 9, 40, 2**62])
        return cls(
            start=start,
            until=rng.choice([-1, -1, -1, start, start + 3, start + 9]),
            aborted=rng.choice([(), (), ((7, 0),), ((7, 3), (8, 0)), ((7, 0), (7, 6), (9, 2))]),
            loops=rng.choice([(), (), (), (7,), (8, 9)]),
            broker_time=rng.random() < 0.3,
            codec=rng.choice([-1, -1, -1, *Codec]),
            enforced=rng.random() < 0.2,
            is_far=rng.random() < 0.2,
            limit=rng.choice([80, 150, 300, 3000, LIMIT, LIMIT]),
            batch_size=rng.choice([62, 100, 200, 600, LIMIT, LIMIT]),
            decompression_limit=rng.choice([10, 400, LIMIT, LIMIT, LIMIT]),
            sequence=rng.choice([0, 0, 2**31 - 4, 2**31 - 1]),
            part=rng.choice([0, 0, 1, 3]),
            most=rng.choice([0, 1, 3, 2**62]),
        )

    def changed(self, rng: random.Random) -> Setting:
        """The same but for one field."""
        name = rng.choice(NAMES)
        return replace(self, **{name: getattr(Setting.drawn(rng), name)})


NAMES: Final = tuple(each.name for each in fields(Setting))
USUAL: Final = Setting()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An answer and what is asked of it."""

    data: bytes
    setting: Setting = field(default_factory=Setting)

    def to_json(self) -> dict[str, Any]:
        """As a line of the corpus has it: only what is not as usual, the bytes compressed where that helps."""
        unusual = {name: value for name, value in asdict(self.setting).items() if value != getattr(USUAL, name)}
        packed = zlib.compress(self.data, 9)
        name, data = ("packed", packed) if len(packed) < len(self.data) else ("plain", self.data)
        return {"setting": unusual, name: base64.urlsafe_b64encode(data).decode()}

    @classmethod
    def from_json(cls, line: dict[str, Any]) -> Case:
        """The case that ``to_json`` was asked for."""
        setting = dict(line["setting"])
        if "aborted" in setting:
            setting["aborted"] = tuple((producer, first) for producer, first in setting["aborted"])
        if "loops" in setting:
            setting["loops"] = tuple(setting["loops"])
        data = base64.urlsafe_b64decode(line["plain"]) if "plain" in line else _unpacked(line["packed"])
        return cls(data=data, setting=Setting(**setting))


def same(got: object, wanted: object, about: str) -> None:
    """Kernel and twin, or two counts, have to agree."""
    if got != wanted:
        raise AssertionError(f"{about}: {got!r} instead of {wanted!r}")


def _unpacked(text: str) -> bytes:
    return zlib.decompress(base64.urlsafe_b64decode(text))
