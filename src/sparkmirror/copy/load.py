"""What the partitions of a lane have together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkmirror.copy.partition import PartitionCopy


def _nobody(partition: PartitionCopy) -> None:
    """Nothing is fetched for a partition without a lane."""


@dataclass(slots=True)
class Load:
    """Shared by the partitions of a lane.

    Attributes:
        bytes: of batches that they hold.
        limited: how many of them have as many batches in flight as they may.
        on_stop: called when a partition has got an ``error`` or an ``obstacle``, from whichever side: nothing more of
            it is fetched then.
    """

    bytes: int = 0
    limited: int = 0
    on_stop: Callable[[PartitionCopy], None] = _nobody
