"""Facts of an operation's record that somebody has changed: told where they are read, and never a traceback."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.errors import SparkmirrorError
from sparkmirror.failover import look, states
from sparkmirror.failover.changes import Changes
from sparkmirror.failover.comparison import Comparison
from sparkmirror.failover.earlier import earlier_in, with_before
from sparkmirror.failover.fence import rules_of
from sparkmirror.failover.operator import INTERRUPTIONS
from sparkmirror.failover.procedure import Options
from sparkmirror.failover.report import Report, as_dict, as_markdown
from sparkmirror.failover.standing import of_row
from sparkmirror.failover.states import Step, can_be_taken_back, holders
from sparkmirror.failover.tried import tried_in, unsure_in
from sparkmirror.failover.unfinished import ended_before, told_of_unfinished
from sparkmirror.offsets.ledger import OPERATION_KEY, Operation
from sparkmirror.offsets.operation_facts import FACTS, check
from sparkmirror.offsets.records import parse
from tests.duties.groups import FLOW
from tests.offsets.hostile import ODD, changed

PLACE, WHEN = ["groesse", 3], 1_700_000_000_000
SOUND: dict[str, Any] = {
    "active": ["g"],
    "again": {"a.orders": {"g": [0, 5, 0, -1]}},
    "answers": True,
    "apart": ["g"],
    "back": ["failover-1", 4, "", WHEN],
    "begun": [1, 2],
    "between": [[*PLACE, 9]],
    "brought": [[*PLACE, 4, 9, 8, "c0ffee"]],
    "came_back": ["g"],
    "came_since": [[*PLACE, 20]],
    "changing": ["h"],
    "committing": True,
    "directory": "/tmp",
    "divergent": [[*PLACE, 5, 9, 1, -1], [*PLACE, 11, 12, 2, 4]],
    "divergent_as": "keep-topic",
    "earlier": {"a.orders": {"g": [0, 5], "h": []}},
    "ended_before": ["failover-1", WHEN],
    "fence": [["TOPIC", "orders", "LITERAL", "User:*", "*", "WRITE"]],
    "forgotten": [["g", *PLACE, 7]],
    "given_up": "failover-0",
    "gone": [["g", *PLACE]],
    "held_before": ["failover-0", "failover to b", WHEN, "me", WHEN],
    "home_fence": [],
    "ids": {"orders": "c0ffee"},
    "interruptions": [["MOVING", WHEN, "me", "it broke", WHEN, "you"]],
    "kept": [1],
    "left_before": ["g"],
    "lifted": {"a": {"orders": WHEN}, "b": {}},
    "lost_copies": [[*PLACE, "a.groesse", 3, 5, 6, 7]],
    "lost_start": True,
    "map_lacks": ["cluster b, the internal topic: it lacks something"],
    "moved": ["g", "h"],
    "moved_before": [],
    "names": {"a.orders": "orders"},
    "not_home": ["b->a said last: a.t: nothing of it is brought home"],
    "not_taken": [["g", "too large"]],
    "onward": [[*PLACE, 9]],
    "options": {"fence": "acl", "idle_s": 5.0, "timeout_s": 600},
    "parted": [[*PLACE, 5, 9]],
    "problems": ["group g is at its wits' end: größe"],
    "recreated": ["orders"],
    "returned": [["switchover-1", WHEN, ["g"]]],
    "saved": 4,
    "source_parted": [[*PLACE, 5, 9]],
    "source_recreated": ["orders"],
    "strange": [["a", "payroll"]],
    "taken_back": [["switchover-1", WHEN, ["g", "h"]]],
    "times": {"STOPPING": [WHEN, WHEN + 1], "MOVING": [WHEN, WHEN + 2]},
    "torn": [[*PLACE, 8]],
    "tried": [["g", *PLACE, -1, 8, 9, 0]],
    "unasked": ["g"],
    "unbrought": [PLACE, [*PLACE, "no-original"]],
    "unfollowed": ["failover to b (failover-1)", WHEN, WHEN],
    "unsettled": [[*PLACE, "no leader"]],
    "unsettled_forth": [PLACE],
    "unsure": [["g", *PLACE]],
    "untold": ["whether its logs are the same is not known"],
}


def record(facts: str, kind: str = "failback") -> str:
    head = {"v": 1, "token": "x", "number": 3, "id": "failback-1", "kind": kind, "step": "MOVING"}
    head |= {"source": "a", "target": "b", "began_ms": WHEN, "time_ms": WHEN, "by": "me", "failure": "it broke"}
    return json.dumps(head)[:-1] + f',"facts":{facts}}}'


def use(operation: Operation) -> None:
    """As commands do. What was written without options cannot be gone on with."""
    facts = operation.facts
    Comparison.of(facts).troubles("a", "b")
    Changes.of(facts).troubles("a", "b")
    with_before(facts.get(states.EARLIER, {}), ())
    assert earlier_in(operation).moved == look.moved_by(operation)
    unsure_in(operation), tried_in(operation), look.not_taken(operation)
    look.torn_in(operation), look.unsettled_in(operation)
    holders(operation), can_be_taken_back(Step[operation.step], facts), ended_before(operation)
    of_row(facts.get(states.BACK, ())), rules_of(facts.get(states.FENCE, []))
    told_of_unfinished(operation, FLOW.name)
    report = Report(flow=FLOW, operation=operation, partitions=(), moves=())
    as_markdown(report), json.dumps(as_dict(report))
    Options.of(facts)


@pytest.mark.parametrize("kind", ["failover", "switchover", "failback"])
def test_sound_facts_are_read_as_they_were_written(kind: str):
    one = parse(OPERATION_KEY, record(json.dumps(SOUND), kind))
    assert isinstance(one, Operation)
    assert one.facts == SOUND
    use(one)
    check({"held_before": SOUND["held_before"][:4], "back": [], "a later release's": object()})


def test_each_fact_has_a_row_and_stands_in_the_sound_ones():
    names = {value for name, value in vars(states).items() if name.isupper() and isinstance(value, str)}
    names |= {INTERRUPTIONS, *Comparison().facts, *Changes().facts, *Options().facts}
    for file in Path(states.__file__).parent.glob("*.py"):
        names.update(re.findall(r'facts(?:\.get\(|\[)"(\w+)"', file.read_text()))
    assert names <= FACTS.keys()
    assert SOUND.keys() == FACTS.keys()


@pytest.mark.parametrize("name", sorted(FACTS))
def test_a_fact_of_another_form_makes_the_record_one_that_somebody_has_overwritten(name: str):
    refused = 0
    for odd in (*ODD, [*ODD], [[*ODD]], {"x": "y"}):
        try:
            value = json.dumps(SOUND | {name: odd})
            one = parse(OPERATION_KEY, record(value))
        except ValueError as failure:
            refused += "not a record of an internal topic" in str(failure)
        else:
            assert isinstance(one, Operation)
            use(one)
    assert refused > 5


@pytest.mark.parametrize("seed", range(4))
def test_facts_that_somebody_has_changed_end_no_command_with_a_traceback(seed: int):
    chance, outcomes = random.Random(seed), Counter[str]()
    sound = json.dumps(SOUND).encode()
    for _ in range(1_000):
        facts = changed(sound, chance).decode(errors="surrogateescape")
        try:
            one = parse(OPERATION_KEY, record(facts, chance.choice(["failover", "failback"])))
        except ValueError:
            outcomes["refused"] += 1
            continue
        assert isinstance(one, Operation)
        if "options" in one.facts:
            use(one)
            outcomes["used"] += 1
        else:
            with pytest.raises(SparkmirrorError, match="somebody has overwritten a record"):
                use(one)
    assert min(outcomes["refused"], outcomes["used"]) > 100
