"""Stories of many kinds of faults, and the shortest one that goes wrong.

    python -m tests.flow.plots leaders 0 2000                 seeds of stories that go wrong, and how
    python -m tests.flow.plots leaders 153 154 --shortest     the shortest part of such a story that goes wrong likewise
    python -m tests.flow.plots leaders 0 2000 --without thin,bound --elections 3

Each plot has 5 to 35 steps, mostly of the faults that its name says.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from rich.console import Console

from sparkmirror.config import Policies, Refill
from tests.flow.story import Step, Story, holes, steps, tell

COMMON = {
    "copy": 6,
    "finish": 2,
    "crash": 3,
    "kill": 1,
    "drain": 1,
    "restart": 2,
    "grow": 4,
    "retain": 0.5,
    "source_retention": 0.5,
    "bound": 2,
    "thin": 0.5,
    "clean": 0.3,
    "others": 1,
    "late": 0.5,
    "elect_source": 0.5,
}
ELECTIONS = {"lose_tail": 3, "come_back": 4}
ELSEWHERE = {"retain_away": 0.3, "clean_away": 0.3}
ORDERS = {"order": 1.5, "order_stopped": 0.7}

PLOTS: dict[str, dict[str, float]] = {
    "tails": COMMON | {"lose_tail": 3},
    "leaders": COMMON | ELECTIONS | ELSEWHERE,
    "cleaned": COMMON | ELECTIONS | {"clean": 3, "clean_away": 2, "retain": 1, "retain_away": 1},
    "orders": COMMON | {"lose_tail": 2} | ORDERS,
    "sources": COMMON | {"lose_tail": 2, "lose_source": 2, "recreate_source": 0.5, "recreate_target": 0.4},
    "ordered leaders": COMMON | {"lose_tail": 2, "come_back": 2} | ELSEWHERE | ORDERS,
    "all": COMMON
    | {"lose_tail": 2, "come_back": 2, "lose_source": 1.5, "recreate_source": 0.5, "recreate_target": 0.3}
    | ELSEWHERE
    | ORDERS,
}


@dataclass(frozen=True, slots=True)
class Telling:
    """How stories of a kind are begun.

    Attributes:
        weights: of the steps.
        elections: so many of the target happen at most.
    """

    weights: dict[str, float]
    elections: int = 1 << 10

    def begun(self, seed: int) -> Story:
        """The partition before anything has happened."""
        chance = Random(seed)
        every = (0, 4, 2, 7)[seed % 4]
        kept = [*holes(chance, chance.randint(0, 60), 0, every), True]
        shared = chance.random() < 0.3
        on = Policies(target_recreated=chance.choice([Refill.OLDEST, Refill.POSITION]))
        story = Story(kept=kept, chance=chance, shared=shared, topic_id="s1", target_id="t1", on=on, every=every)
        story.leaders_return = self.weights.get("come_back", 0) > 0
        story.asks = story.leaders_return or shared or chance.random() < 0.5
        return story

    def plot(self, seed: int) -> list[Step]:
        """What happens."""
        chance = Random(seed * 7 + 1)
        left, plot = self.elections, []
        for step in steps(chance, chance.randint(5, 35), self.weights):
            left -= step.name in ELECTIONS
            if step.name not in ELECTIONS or left >= 0:
                plot.append(step)
        return plot

    def told(self, seed: int, plot: Iterable[Step]) -> str:
        """What goes wrong first, or nothing."""
        story = self.begun(seed)
        try:
            problems = tell(story, plot)
        except AssertionError as failure:
            return f"stands still: {failure}"
        return problems[0] if problems else ""


def kind(problem: str) -> str:
    """What a problem is, whichever offsets it names and whenever it is seen."""
    return re.sub(r"[\d, ]+", " ", re.sub(r"^after step .*?\): ", "", problem)).split(":")[0][:60]


def shortest(told: Callable[[Sequence[Step]], str], plot: Sequence[Step]) -> list[Step]:
    """The same plot without steps that its problem does not need."""
    wanted, plot = kind(told(plot)), list(plot)
    at = len(plot)
    while at:
        at -= 1
        less = plot[:at] + plot[at + 1 :]
        if kind(told(less)) == wanted:
            plot, at = less, len(less)
    return plot


def main() -> None:
    """Tells the stories of some seeds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=PLOTS)
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int)
    parser.add_argument("--without", default="", help="steps that do not happen, with commas in between")
    parser.add_argument("--elections", type=int, default=1 << 10)
    parser.add_argument("--shortest", action="store_true")
    given, console = parser.parse_args(), Console(soft_wrap=True, highlight=False, markup=False)
    weights = PLOTS[given.name] | {name: 0.0 for name in given.without.split(",") if name}
    telling, found = Telling(weights, given.elections), 0
    for seed in range(given.first, given.end):
        plot = telling.plot(seed)
        problem = telling.told(seed, plot)
        if not problem:
            continue
        found += 1
        console.print(f"{seed}: {len(plot)} steps: {problem[:300]}")
        if given.shortest:
            plot = shortest(partial(telling.told, seed), plot)
            console.print(f"    {telling.told(seed, plot)}\n    {[tuple(step) for step in plot]}")
    console.print(f"{found} stories go wrong")


if __name__ == "__main__":
    main()
