"""Whole lives of a partition by chance: takeovers, orders, losses and topics created again, in any order."""

from __future__ import annotations

from random import Random

import pytest

from sparkmirror.config import Policies, Refill
from tests.flow.story import Step, Story, holes, steps, tell

WEIGHTS = {
    "copy": 6,
    "finish": 2,
    "crash": 3,
    "kill": 1,
    "drain": 1,
    "restart": 2,
    "order": 2,
    "order_stopped": 1,
    "grow": 3,
    "recreate_source": 1,
    "recreate_target": 0.5,
    "lose_tail": 3,
    "retain": 1,
    "source_retention": 1,
    "bound": 2,
    "thin": 0.3,
    "clean": 0.5,
    "others": 1,
    "late": 0.3,
    "lose_source": 1.5,
    "elect_source": 1,
}
LEADERS_RETURN = WEIGHTS | {
    "come_back": 3,
    "order": 0,
    "order_stopped": 0,
    "recreate_source": 0,
    "recreate_target": 0,
    "lose_source": 0,
}
LEADERS_FLAP = (
    LEADERS_RETURN
    | {"grow": 4, "come_back": 4}
    | dict.fromkeys(("retain", "source_retention", "bound", "thin", "clean", "late", "restart"), 0)
)
STORIES = 1_500
WORKERS = 4


def story(seed: int, every: int = 0) -> Story:
    chance = Random(seed)
    kept = [*holes(chance, chance.randint(0, 40), 0, every), True]
    shared = chance.random() < 0.3
    on = Policies(target_recreated=chance.choice([Refill.OLDEST, Refill.POSITION]))
    begun = Story(kept=kept, chance=chance, shared=shared, topic_id="s1", target_id="t1", on=on, every=every)
    begun.asks = shared or chance.random() < 0.5
    return begun


@pytest.mark.parametrize("part", range(WORKERS))
def test_nothing_is_lost_repeated_or_mistranslated_whatever_happens(part):
    for seed in range(part * STORIES, (part + 1) * STORIES):
        chance = Random(seed * 7 + 1)
        plot = steps(chance, chance.randint(2, 14), WEIGHTS)
        problems = tell(story(seed, every=seed % 2 * 4), plot)
        assert not problems, f"seed {seed}, {plot}: {problems[0]}"


def test_former_leaders_that_come_back_bring_their_places_back_too():
    """Batches that a takeover has found lost, and taken off the offset map, lie where they lay before."""
    for seed in range(STORIES):
        chance = Random(seed * 7 + 1)
        plot = steps(chance, chance.randint(2, 14), LEADERS_RETURN)
        begun = story(seed, every=seed % 2 * 4)
        begun.asks = begun.leaders_return = True
        problems = tell(begun, plot)
        assert not problems, f"seed {seed}, {plot}: {problems[0]}"


def long_away(chance: Random) -> list[Step]:
    """A former leader of the target comes back when several runs have copied elsewhere, and bounded the map."""
    names = ["finish", *chance.choices(["restart", "grow", "copy", "finish", "bound"], k=chance.randint(0, 4))]
    names.append("lose_tail")
    for _ in range(chance.randint(2, 6)):
        names += [
            chance.choice(["grow", "grow", "source_retention"]),
            chance.choice(["copy", "finish", "crash"]),
            chance.choice(["restart", "kill", "drain", "crash"]),
            "bound",
        ]
    return [Step(name, chance.randrange(1 << 32)) for name in (*names, "come_back", "grow", "finish")]


def test_a_former_leader_that_was_away_for_several_epochs_is_known_when_it_comes_back():
    """Though the map was bounded in between: what it has is not copied again, and nobody stands still over it."""
    for seed in range(STORIES // 5):
        plot = long_away(Random(seed * 7 + 1))
        begun = story(seed, every=seed % 2 * 4)
        begun.asks = begun.leaders_return = True
        problems = tell(begun, plot)
        assert not problems, f"seed {seed}, {plot}: {problems[0]}"
        assert not any("outlived" in event.text and begun.source_start == 0 for event in begun.events), f"seed {seed}"


def test_former_leaders_that_come_back_by_turns_leave_no_places_of_one_another_on_the_map():
    """Each has epochs that the others lack, so a place may be back, and gone again, several times."""
    for seed in range(300):
        chance = Random(seed * 7 + 1)
        plot = steps(chance, chance.randint(10, 35), LEADERS_FLAP)
        begun = story(seed, every=seed % 2 * 4)
        begun.asks = begun.leaders_return = True
        problems = tell(begun, plot)
        assert not problems, f"seed {seed}, {plot}: {problems[0]}"


FOUND = {
    "an order that was begun again behind a hole, and corrected": (
        1118,
        [("finish", 720887242), ("order_stopped", 3907496919), ("copy", 1367593596), ("order", 3741284521)],
    ),
    "orders by which nothing was copied, and a loss above them": (
        1933,
        [
            ("finish", 3884529311),
            ("order_stopped", 1941921549),
            ("order", 2755130392),
            ("crash", 2132109967),
            ("lose_tail", 176292272),
        ],
    ),
    "an order that leads over what a deceived lane wrote": (
        3256,
        [
            ("copy", 4097404874),
            ("drain", 4086117716),
            ("lose_tail", 869098669),
            ("crash", 2433187190),
            ("order_stopped", 622399988),
        ],
    ),
    "a loss that reaches into the epoch before, and a deceived lane": (
        3670,
        [
            ("recreate_source", 3145575835),
            ("copy", 1399505946),
            ("restart", 1253378206),
            ("copy", 3273664212),
            ("lose_tail", 3488497363),
        ],
    ),
    "a deceived lane, and the map's records joined": (
        554,
        [
            ("copy", 150720639),
            ("drain", 98477521),
            ("lose_tail", 1620941140),
            ("crash", 1758193065),
            ("copy", 2674044539),
            ("finish", 3470027772),
            ("bound", 2359516992),
        ],
    ),
    "an epoch that ended in order, and a hole behind it": (
        7044,
        [
            ("recreate_source", 4049570305),
            ("copy", 3037443186),
            ("restart", 2799035718),
            ("crash", 3520118447),
        ],
    ),
    "an order over a loss, of which the source has lost a part too": (
        1004666,
        [
            ("crash", 62219412),
            ("crash", 2098654943),
            ("order", 3760754062),
            ("lose_tail", 3852618490),
            ("lose_tail", 195364247),
            ("source_retention", 1966887422),
            ("copy", 343082517),
            ("finish", 1752086682),
            ("late", 3953095787),
            ("finish", 1880789684),
            ("bound", 4207056203),
        ],
    ),
    "a loss of what an order has had copied again": (
        1253,
        [("copy", 3112184876), ("order", 1584353860), ("lose_tail", 3879786925)],
    ),
    "an order that goes back below a loss of the source, and is corrected": (
        20001173,
        [("finish", 0), ("lose_source", 0), ("order", 1), ("copy", 0), ("order", 3)],
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_story_that_once_went_wrong_goes_well(name):
    seed, plot = FOUND[name]
    assert tell(story(seed), [Step(*each) for each in plot]) == []
