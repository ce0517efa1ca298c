"""What happens in each round of changing over: a pure function of the seed.

A round goes over to the other cluster, unplanned or planned, and back again. Invariant: unplanned and planned rounds
take turns in an order of chance, so that neither is left out however few rounds there are.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from sparkmirror.failover.states import Keep, Kind

RUN_S = (3.0, 8.0)
AWAY_S = (2.0, 6.0)
OPERATOR_S = (1.5, 7.0)
DRIVER_S = (0.5, 5.0)
STRAY_S = (0.5, 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One way, by a command.

    Attributes:
        run_s: how long applications write and read before it.
        operator_s: the command gets SIGKILL so long after it was started, and is given once more; 0 for never.
        driver_s: so does the mirror's driver, and is started again; 0 for never.
    """

    run_s: float
    operator_s: float
    driver_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Over and back.

    Attributes:
        number: counting from 1.
        kind: how it goes over. A failover follows upon SIGKILL of all brokers of the source.
        over: the way there. In a failover, ``driver_s`` says only whether the mirror is killed with the source.
        stray_s: so long applications that heard of nothing go on writing to the source when that is back.
        keep: what becomes of what only the source has.
        back: the way back.
    """

    number: int
    kind: Kind
    over: Change
    stray_s: float
    keep: Keep
    back: Change


def rounds(seed: int, count: int) -> Iterator[Round]:
    """The rounds of a seed, in order."""
    chance = random.Random(seed)
    kinds: list[Kind] = []
    for number in range(1, count + 1):
        if not kinds:
            kinds = chance.sample([Kind.FAILOVER, Kind.SWITCHOVER], 2)
        yield Round(
            number=number,
            kind=kinds.pop(),
            over=_change(chance, RUN_S),
            stray_s=_sometimes(chance, STRAY_S),
            keep=chance.choice(list(Keep)),
            back=_change(chance, AWAY_S),
        )


def _change(chance: random.Random, run_s: tuple[float, float]) -> Change:
    return Change(
        run_s=round(chance.uniform(*run_s), 2),
        operator_s=_sometimes(chance, OPERATOR_S),
        driver_s=_sometimes(chance, DRIVER_S),
    )


def _sometimes(chance: random.Random, within: tuple[float, float]) -> float:
    moment = chance.uniform(*within)
    return round(moment, 2) if chance.random() < 0.5 else 0.0
