"""What the lanes of a flow are ordered: by the operator's records, by the configuration, by changes of the target.

Invariants: the decisions are pure; lanes are told only what is new to them; the sum of all shares is the flow's limit,
and what one lane leaves unused the others may have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sparkmirror.copy.orders import Orders
from sparkmirror.copy.target_facts import TargetFacts
from sparkmirror.offsets.state import JournalState

HEADROOM = 1.5
"""A lane may want so many times what it does now."""

LEAST_PART = 0.1
"""Of an equal share: what a lane always has, so that it can show that it wants more."""

NEWS = 0.1
"""Shares that changed by less than this part are not told anew."""


class Ordering:
    """Tells the lanes of one flow.

    Args:
        limit: the flow's bytes per second as the configuration says, or None.
        tell: writes the orders on the control topic.
        moves: whether partitions are moved while lanes copy; a copy for once moves them only when it begins.
    """

    def __init__(self, limit: int | None, tell: Callable[[Orders], None], *, moves: bool = True) -> None:
        self._limit = limit
        self._tell = tell
        self._moves = moves
        self.orders = Orders(share=limit)

    def expect(self, state: JournalState, lanes: int, guarded_ms: int) -> None:
        """So many lanes are about to start, and none runs: they are given what holds now with their plans."""
        orders = self._decide(state, {}, {}, guarded_ms)
        self.orders = orders if orders.share is None else replace(orders, share=orders.share / lanes)

    def follow(
        self,
        state: JournalState,
        rates: Mapping[str, float],
        facts: Mapping[str, TargetFacts],
        guarded_ms: int,
    ) -> None:
        """Looks at what holds now, and tells it if that is new.

        Args:
            state: of the internal topic.
            rates: bytes per second of each lane, by its name.
            facts: of target topics that are not as some lane's plan says.
            guarded_ms: how old records may be by now for the target's brokers to remember who wrote them.

        Raises:
            SparkmirrorError: the target cannot be written to; the next look tells it then.
        """
        wanted = self._decide(state, rates, facts, guarded_ms)
        if is_news(wanted, self.orders):
            self._tell(wanted)
            self.orders = wanted

    def _decide(
        self,
        state: JournalState,
        rates: Mapping[str, float],
        facts: Mapping[str, TargetFacts],
        guarded_ms: int,
    ) -> Orders:
        orders = replace(decide(state, self._limit, rates), facts=facts, guarded_ms=guarded_ms)
        return orders if self._moves else replace(orders, moving=frozenset())


def decide(state: JournalState, limit: int | None, rates: Mapping[str, float]) -> Orders:
    """The orders that hold now."""
    limit = state.rate.bytes_per_s if state.rate is not None else limit
    orders = Orders(
        paused=frozenset(order.topic for order in state.paused.values()),
        moving=frozenset(order.partition for order in state.moves.values()),
    )
    if limit is None:
        return orders
    return replace(orders, share=limit / (len(rates) + 1), shares=shares(limit, rates))


def shares(limit: float, rates: Mapping[str, float]) -> dict[str, float]:
    """Parts a limit among lanes: each gets what it wants, those that want more than there is get the same."""
    found: dict[str, float] = {}
    left = float(limit)
    for number, lane in enumerate(sorted(rates, key=lambda name: (rates[name], name))):
        equal = left / (len(rates) - number)
        last = number == len(rates) - 1
        found[lane] = equal if last else min(equal, max(rates[lane] * HEADROOM, equal * LEAST_PART))
        left -= found[lane]
    return found


def is_news(wanted: Orders, told: Orders) -> bool:
    """Whether the lanes have to be told."""
    if replace(wanted, share=None, shares={}) != replace(told, share=None, shares={}):
        return True
    if (wanted.share is None) != (told.share is None) or wanted.shares.keys() != told.shares.keys():
        return True
    pairs = [(wanted.shares[lane], told.shares[lane]) for lane in wanted.shares]
    return any(abs(new - old) > NEWS * max(new, old) for new, old in pairs)
