"""What was done: one entry for each fault, told while it happens and kept for the report."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from sparkmirror.lab.chaos.schedule import Fault

Tell: TypeAlias = Callable[[str], None]


@dataclass(slots=True)
class Deed:
    """One fault as it was done.

    Attributes:
        fault: as scheduled.
        began: seconds of the monotonic clock.
        ended: likewise, when all was undone; 0 until then.
        words: victims and what happened, in order, each with seconds since it began.
        problem: why it could not be done or undone; "" when it could.
    """

    fault: Fault
    began: float = 0.0
    ended: float = 0.0
    words: list[str] = field(default_factory=list)
    problem: str = ""


class Diary:
    """Takes down what happens in a run, and says it."""

    def __init__(self, say: Tell) -> None:
        self.began = time.monotonic()
        self.deeds: list[Deed] = []
        self.notes: list[str] = []
        self._say = say

    def note(self, words: str) -> None:
        """Something that is no fault."""
        line = f"{time.monotonic() - self.began:7.1f} s  {words}"
        self.notes.append(line)
        self._say(line)

    def open(self, fault: Fault) -> Deed:
        """A fault begins."""
        deed = Deed(fault, began=time.monotonic())
        self.deeds.append(deed)
        self.note(f"#{fault.number} {fault.kind}")
        return deed

    def alone(self, since: float) -> bool:
        """Whether no more than one fault was being made or undone since a moment of the monotonic clock."""
        return sum(not deed.ended or deed.ended >= since for deed in tuple(self.deeds)) <= 1

    def tell(self, deed: Deed, words: str) -> None:
        """Something about a fault."""
        deed.words.append(f"+{time.monotonic() - deed.began:.1f} s: {words}")
        self.note(f"#{deed.fault.number}   {words}")

    def close(self, deed: Deed, problem: str = "") -> None:
        """It is undone, or it could not be."""
        deed.ended, deed.problem = time.monotonic(), problem
        self.note(f"#{deed.fault.number}   " + (f"PROBLEM: {problem}" if problem else "undone"))
