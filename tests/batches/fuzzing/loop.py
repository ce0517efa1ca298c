"""The fuzz itself: cases are damaged, tried, and kept where they took a new way.

Nothing is random but by the seed, so a run can be done again.
"""

from __future__ import annotations

import faulthandler
import json
import random
import resource
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.batches.fuzzing.case import Case, Setting
from tests.batches.fuzzing.corpus import Facts, Known, ways
from tests.batches.fuzzing.counting import counted
from tests.batches.fuzzing.damage import damaged, pieces
from tests.batches.fuzzing.trial import Trial

POOL: Final = 20_000
MEMORY: Final = 768 << 20
"""What a run may take beside what it has once everything is loaded."""
PATIENCE: Final = 300
"""Seconds after which a run that does not come on ends with a traceback."""


class DefectError(Exception):
    """A case that did what none may do; the line brings it into the corpus once it is mended."""

    def __init__(self, case: Case, cause: BaseException) -> None:
        self.case = case
        told = "".join(traceback.format_exception(cause))
        super().__init__(f"{told}\n{json.dumps({'facts': [], **case.to_json()})}")


@dataclass(slots=True)
class Figures:
    """What a run did."""

    answers: int = 0
    batches: int = 0
    records: int = 0
    slowest: float = 0.0
    executions: Counter[str] = field(default_factory=Counter)
    facts: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Fuzz:
    """A run.

    Attributes:
        seed: decides everything.
        pool: cases to start from; it grows.
        figures: what was done so far.
    """

    seed: int
    pool: list[Known]
    figures: Figures = field(default_factory=Figures)
    _seen: set[tuple[str, ...]] = field(default_factory=set)

    def run(self, executions: int) -> Figures:
        """Tries cases until the kernels have run that often.

        Raises:
            DefectError: a case did harm.
        """
        rng = random.Random(self.seed)
        with counted(self.figures.executions) as counts:
            self.pool = [(case, self.attempt(case)) for case, _ in self.pool]
            for _, facts in self.pool:
                self._seen.update(ways(facts))
            while counts.total() < executions:
                self._next(rng)
        faulthandler.cancel_dump_traceback_later()
        return self.figures

    def _next(self, rng: random.Random) -> None:
        figures = self.figures
        if figures.answers % 512 == 0:
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
        before, _ = rng.choice(self.pool)
        setting = before.setting.changed(rng) if rng.random() < 0.6 else Setting.drawn(rng)
        data = damaged(before.data, [case.data for case, _ in rng.choices(self.pool, k=1)], rng)
        case = Case(data=data, setting=setting)
        facts = self.attempt(case)
        new = set(ways(facts)) - self._seen
        if new and len(self.pool) < POOL:
            self._seen |= new
            self.pool.append((case, facts))

    def attempt(self, case: Case) -> Facts:
        """One case through everything."""
        figures, began = self.figures, time.thread_time()
        trial = Trial(case)
        try:
            facts = trial.run()
        except Exception as error:
            kind = type(error)
            smaller = smallest(case, lambda each: fails(each, kind))
            raise DefectError(smaller, error) from error
        figures.slowest = max(figures.slowest, time.thread_time() - began)
        figures.answers += 1
        figures.batches += trial.batches
        figures.records += trial.records
        figures.facts.update(facts)
        return facts


def fails(case: Case, kind: type[BaseException]) -> bool:
    """Whether a case raises an error of that kind."""
    try:
        Trial(case).run()
    except kind:
        return True
    return False


def smallest(case: Case, holds: Callable[[Case], bool]) -> Case:
    """The case without the batches and the wishes that it does not need."""
    for setting in (Setting(), Setting(start=case.setting.start, aborted=case.setting.aborted)):
        plain = Case(data=case.data, setting=setting)
        if holds(plain):
            case = plain
            break
    at = 0
    while at < len(parts := pieces(case.data)):
        shorter = Case(data=b"".join(parts[:at] + parts[at + 1 :]), setting=case.setting)
        if holds(shorter):
            case = shorter
        else:
            at += 1
    return case


def cases_of(answers: Iterable[bytes]) -> list[Known]:
    """Answers as cases that nothing is known of yet, each as usual and with something asked of it."""
    rng = random.Random(3)
    return [(Case(data=data, setting=setting), ()) for data in answers for setting in (Setting(), Setting.drawn(rng))]


def limit_memory() -> None:
    """From here on what takes much more memory than there is in use ends with a MemoryError."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
