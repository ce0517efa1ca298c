"""The stored cases: each took a way through the code that no smaller one did.

A line of ``corpus/cases.jsonl`` is a case (see ``case.Case.to_json``) and its facts (see ``trial``), so that a test
sees when a batch is treated in another way than it was. Written by ``python -m tests.batches.fuzz collect``, and by
nothing else but those who add a case that once did harm.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Final

from tests.batches.fuzzing.case import Case

PATH: Final = Path(__file__).parents[1] / "corpus" / "cases.jsonl"
BUDGET: Final = 250 * 1024
"""Bytes that the file may have."""

Facts = tuple[str, ...]
Known = tuple[Case, Facts]


def load() -> list[Known]:
    """The stored cases with the facts that are on record."""
    lines = PATH.read_text(encoding="utf-8").splitlines() if PATH.exists() else []
    told = map(json.loads, lines)
    return [(Case.from_json(line), tuple(line["facts"])) for line in told]


def store(cases: Iterable[Known]) -> None:
    """Writes the file anew."""
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text("".join(map(_line, cases)), encoding="utf-8")


def _line(known: Known) -> str:
    case, facts = known
    return json.dumps({"facts": facts, **case.to_json()}) + "\n"


def ways(facts: Facts) -> Iterator[tuple[str, ...]]:
    """What makes a case new: a fact, or two that were not seen together."""
    yield from ((fact,) for fact in facts)
    yield from combinations(sorted(facts), 2)


def chosen(cases: Iterable[Known]) -> list[Known]:
    """The smallest cases that have every fact, then those that have most pairs of facts, as many as may be stored."""
    ordered = sorted(cases, key=lambda known: len(_line(known)))
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
