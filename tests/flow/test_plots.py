"""Long stories under faults of many kinds: what `tests.flow.story` checks holds in each of them."""

from __future__ import annotations

import pytest

from tests.flow.plots import PLOTS, Telling, kind, shortest
from tests.flow.story import Step

SEEDS = {
    "tails": 400,
    "leaders": 700,
    "cleaned": 700,
    "orders": 400,
    "sources": 400,
    "ordered leaders": 700,
    "all": 400,
}
PARTS = 4

WENT_WRONG = {
    "a loss at the log's start, behind which the map leads straight on": (
        "cleaned",
        133,
        [
            ("finish", 3274321120),
            ("retain", 3546371769),
            ("lose_tail", 1499561791),
            ("source_retention", 1288538044),
            ("bound", 2362377481),
        ],
    ),
    "a former leader that comes back with what the cleaner has left": (
        "cleaned",
        121,
        [
            ("grow", 1707033436),
            ("finish", 2661443402),
            ("clean", 1907204241),
            ("lose_tail", 3168369060),
            ("crash", 2108932667),
            ("come_back", 3118055329),
        ],
    ),
    "former leaders that come back by turns with what the cleaner has left": (
        "cleaned",
        277,
        [
            ("finish", 2586420906),
            ("lose_tail", 2830322601),
            ("finish", 4201093701),
            ("clean", 3772622218),
            ("come_back", 1252324617),
            ("crash", 1543845671),
            ("come_back", 716942756),
        ],
    ),
    "a former leader of whose copies the cleaner has left nothing": (
        "cleaned",
        109,
        [
            ("copy", 426663023),
            ("retain", 3047847647),
            ("crash", 1973410065),
            ("copy", 2866370654),
            ("grow", 3778073042),
            ("clean", 2750797406),
            ("copy", 2507080582),
            ("copy", 571942742),
            ("lose_tail", 980220199),
            ("lose_tail", 3409947841),
            ("source_retention", 2437245080),
            ("copy", 2702565574),
            ("come_back", 2967952443),
        ],
    ),
    "an order, and then a former leader that comes back": (
        "ordered leaders",
        228,
        [
            ("order", 2604861807),
            ("finish", 189122444),
            ("lose_tail", 2454484280),
            ("crash", 2315076756),
            ("come_back", 2477868444),
        ],
    ),
    "a target topic that was created again, and then a former leader that comes back": (
        "all",
        154,
        [
            ("copy", 2477986666),
            ("recreate_target", 223707099),
            ("copy", 1976162442),
            ("lose_tail", 2735939866),
            ("copy", 3559044935),
            ("come_back", 3281511582),
        ],
    ),
    "an order between two elections, and records that nobody has any more": (
        "ordered leaders",
        106,
        [
            ("grow", 3298873253),
            ("crash", 3685112123),
            ("lose_tail", 221949800),
            ("grow", 3096364338),
            ("order", 318540684),
            ("crash", 19995846),
            ("come_back", 976749078),
        ],
    ),
    "a former leader that comes back, and a cleaner that runs on one of the two": (
        "ordered leaders",
        659,
        [
            ("grow", 2457255519),
            ("finish", 1649174577),
            ("lose_tail", 3871678206),
            ("copy", 3790520946),
            ("restart", 1677795028),
            ("come_back", 3438302548),
            ("clean", 3625203411),
        ],
    ),
    "a former leader whose retention has left nothing of the flow": (
        "cleaned",
        91,
        [
            ("crash", 232347264),
            ("copy", 733142955),
            ("kill", 1089137443),
            ("lose_tail", 824945008),
            ("crash", 1342889404),
            ("retain_away", 1641594212),
            ("come_back", 24964948),
        ],
    ),
    "a former leader that loses all that its retention has left": (
        "leaders",
        35,
        [
            ("copy", 1893988654),
            ("lose_tail", 2314014199),
            ("lose_tail", 2008422119),
            ("crash", 1226215443),
            ("copy", 3710236657),
            ("copy", 2633600224),
            ("retain_away", 3725554762),
            ("come_back", 4101666614),
            ("lose_tail", 3456588030),
        ],
    ),
    "an order while the target has lost all, and a former leader whose retention goes on": (
        "ordered leaders",
        1391,
        [
            ("copy", 1552540309),
            ("lose_tail", 3134701391),
            ("order", 296756502),
            ("lose_tail", 600943254),
            ("retain_away", 3461977756),
            ("copy", 898607803),
            ("come_back", 1694488547),
        ],
    ),
    "an order of which nothing has come, and a former leader that comes back": (
        "ordered leaders",
        1020,
        [
            ("copy", 4090260466),
            ("lose_tail", 2084325997),
            ("finish", 3639666034),
            ("grow", 2107101685),
            ("order", 2250809390),
            ("copy", 1350212770),
            ("come_back", 2444943796),
        ],
    ),
    "a source topic that was created again, and a former leader whose log was cut off for its lane": (
        "all",
        805,
        [
            ("copy", 1435621261),
            ("lose_tail", 3937736608),
            ("clean_away", 51002601),
            ("finish", 21251307),
            ("recreate_source", 3994688823),
            ("come_back", 3515252175),
        ],
    ),
    "leaders by turns, of which one has lost to retention what is not on record": (
        "leaders",
        1259,
        [
            ("finish", 2719727901),
            ("lose_tail", 3805882977),
            ("kill", 298536988),
            ("crash", 1885833771),
            ("retain", 3988312574),
            ("come_back", 346659249),
            ("crash", 2142863084),
            ("come_back", 905564543),
        ],
    ),
    "a former leader that comes back over late places of the one before, by a short look at its log": (
        "all",
        1567,
        [
            ("order", 479785801),
            ("crash", 2021325969),
            ("lose_tail", 3414582273),
            ("crash", 864117836),
            ("late", 1784861751),
            ("come_back", 1197565410),
        ],
    ),
    "a deceived lane over a gap, and the map's records joined": (
        "orders",
        1705,
        [
            ("copy", 3700761568),
            ("drain", 1427125749),
            ("lose_tail", 3320119992),
            ("copy", 83938961),
            ("crash", 1487056718),
            ("copy", 4121195490),
            ("bound", 352424995),
        ],
    ),
}


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", PLOTS)
def test_nothing_is_lost_repeated_reordered_or_mistranslated_unsaid(name, part):
    telling = Telling(PLOTS[name])
    for seed in range(part, SEEDS[name], PARTS):
        plot = telling.plot(seed)
        problem = telling.told(seed, plot)
        assert not problem, f"{name}, seed {seed}, {plot}: {problem}"


@pytest.mark.parametrize("name", WENT_WRONG)
def test_a_story_that_once_went_wrong_goes_well(name):
    family, seed, plot = WENT_WRONG[name]
    assert not Telling(PLOTS[family]).told(seed, [Step(*step) for step in plot])


def test_the_shortest_plot_goes_wrong_in_the_same_way():
    plot = [Step(name, seed) for seed, name in enumerate(["copy", "grow", "order", "copy", "clean"])]

    def told(plot):
        names = [step.name for step in plot]
        return f"after step {len(plot)}, {plot[-1]}: {len(plot)} steps" if {"grow", "clean"} <= set(names) else ""

    assert kind(told(plot)) == kind(told(plot[1:]))
    assert [step.name for step in shortest(told, plot)] == ["grow", "clean"]
