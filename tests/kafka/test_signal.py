"""Who waits for the same thing on one network loop."""

from __future__ import annotations

from typing import Any

import pytest

from sparkmirror.kafka.cluster import new_loop
from sparkmirror.kafka.signal import Signal, Turn

MANY = 5


def test_all_who_wait_for_a_turn_get_it_one_after_the_other_in_their_order():
    """Partitions of one shift may wait for a publication at the same time: none is forgotten."""
    loop, turn = new_loop("turns"), Turn()
    inside: list[int] = []
    done: list[int] = []
    woken = Signal(loop)

    async def take(number: int) -> None:
        async with turn.taken():
            inside.append(number)
            await loop.sleep(0.01)
            assert inside == [number]
            inside.remove(number)
        done.append(number)
        if len(done) == MANY:
            woken.set()

    async def all_of_them() -> None:
        for number in range(MANY):
            loop.call_soon(lambda number=number: take(number))
        await woken.wait(10.0)

    loop.run(all_of_them)
    assert done == [*range(MANY)]


def test_a_turn_goes_on_to_the_next_when_its_holder_fails():
    loop, turn = new_loop("turns"), Turn()

    async def fail() -> None:
        async with turn.taken():
            raise ValueError("on purpose")

    async def take() -> str:
        async with turn.taken():
            return "taken"

    with pytest.raises(ValueError, match="on purpose"):
        loop.run(fail)
    assert loop.run(take) == "taken"


def test_a_signal_has_one_waiter_and_says_so():
    loop = new_loop("signals")
    signal = Signal(loop)
    failures: list[Any] = []

    async def second() -> None:
        try:
            await signal.wait(0.2)
        except AssertionError as failure:
            failures.append(failure)

    async def both() -> None:
        loop.call_soon(second)
        await signal.wait(0.2)

    loop.run(both)
    assert len(failures) == 1
