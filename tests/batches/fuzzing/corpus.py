"""The stored cases: those that took a way through the code that no smaller one did, and those that once did harm.

A line is a case (see ``case.Case.to_json``) and its facts (see ``trial``), so that a test sees when a batch is treated
in another way than it was. ``cases.jsonl`` is written by ``python -m tests.batches.fuzz collect``. ``harm.jsonl`` is
written by hand: what the fuzz prints of a defect, once that is mended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Final

from tests.batches.fuzzing.case import Case

ROOM: Final = Path(__file__).parents[1] / "corpus"
COLLECTED: Final = ROOM / "cases.jsonl"
HARMFUL: Final = ROOM / "harm.jsonl"
BUDGET: Final = 250 * 1024
"""Bytes that the collected cases may have."""

Facts = tuple[str, ...]
Known = tuple[Case, Facts]


def load(*paths: Path) -> list[Known]:
    """The stored cases, of some files or of all, with the facts that are on record."""
    lines = [line for path in paths or (COLLECTED, HARMFUL) for line in path.read_text(encoding="utf-8").splitlines()]
    told = map(json.loads, lines)
    return [(Case.from_json(line), tuple(line["facts"])) for line in told]


def store(cases: Iterable[Known]) -> None:
    """Writes the collected ones anew."""
    COLLECTED.write_text("".join(map(_line, cases)), encoding="utf-8")


def _line(known: Known) -> str:
    case, facts = known
    return json.dumps({"facts": facts, **case.to_json()}) + "\n"


def ways(facts: Facts) -> Iterator[tuple[str, ...]]:
    """What makes a case new: a fact, or two that were not seen together."""
    yield from ((fact,) for fact in facts)
    yield from combinations(sorted(facts), 2)


def chosen(cases: Iterable[Known]) -> list[Known]:
    """The smallest cases that have every fact, then those that have most pairs of facts, as many as may be stored."""
    harmful = {case for case, _ in load(HARMFUL)}
    ordered = sorted((known for known in cases if known[0] not in harmful), key=lambda known: len(_line(known)))
    seen: set[tuple[str, ...]] = set()
    found: list[Known] = []
    size = 0
    for least in (1, 2):
        for known in ordered:
            new = {way for way in ways(known[1]) if len(way) <= least} - seen
            fits = size + len(_line(known)) <= BUDGET
            if new and fits and known not in found:
                found.append(known)
                size += len(_line(known))
                seen |= set(ways(known[1]))
    return sorted(found, key=lambda known: known[1])
