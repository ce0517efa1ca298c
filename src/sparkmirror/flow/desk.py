"""What a run gives to each of its flows: Spark, room for lanes, threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sparkmirror.flow.room import Room
from sparkmirror.flow.shift import RunShift


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What a run gives to each of its flows.

    Attributes:
        run: the run's name.
        opening: how often the run has opened the flow before; what was cancelled then keeps its name in Spark.
        once: copy to the present end, then end.
        room: how many lanes the flow may have now.
        run_shift: runs one shift on Spark and waits for it.
        cancel_shift: cancels one, given its name; `run_shift` then raises.
        pool: threads for shifts.
    """

    run: str
    opening: int
    once: bool
    room: Callable[[], Room]
    run_shift: RunShift
    cancel_shift: Callable[[str], None]
    pool: ThreadPoolExecutor
