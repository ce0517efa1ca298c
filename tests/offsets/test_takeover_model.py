"""Takeovers against a plain model of the partition: whatever dies or is lost, each record arrives once, in order."""

from __future__ import annotations

from copy import deepcopy
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.offsets.segments import SEQUENCES
from sparkmirror.offsets.tail import TailBatch
from tests.offsets.segments import end as ended
from tests.offsets.world import PLACE, Begin, Entry, Resume, Stuck, World

_kept = st.lists(st.booleans(), min_size=1, max_size=60).map(lambda kept: [*kept, True])
_budgets = st.lists(st.integers(0, 40), min_size=1, max_size=5)
_chances = st.integers(0, 2**32).map(Random)
_firsts = st.sampled_from([0, SEQUENCES - 3, SEQUENCES - 20])


def begun(world: World) -> World:
    world.begin(0)
    return world


_worlds = st.builds(World, kept=_kept, chance=_chances, first_sequence=_firsts, shared=st.booleans()).map(begun)
MANY = settings(max_examples=200, deadline=None)


def expected(world: World) -> list[int]:
    return [offset for offset, kept in enumerate(world.kept) if kept]


def check_map(world: World) -> None:
    """Every record that is left on the target translates both ways; a hole leads to the record behind it."""
    offsets = world.state.maps[PLACE].offsets(world.state.progress[PLACE], world.ids)
    there = {
        source: entry.header.base_offset + number for entry in world.log for number, source in enumerate(entry.sources)
    }
    following = world.position
    behind = there[max(there)] + 1
    left = min((source for source, target in there.items() if target >= world.start), default=world.source_start)
    for source in reversed(range(max(min(there), min(left, world.source_start)), len(world.kept))):
        following = source if source in there else following
        assert offsets.source_to_target(source) == there.get(following, behind), f"source offset {source}"
        assert offsets.mirrored(source) == (source in there)
    for source, target in there.items():
        gone = source < world.source_start and target < world.start
        assert gone or offsets.target_to_source(target) == source


def check_newest(world: World) -> None:
    """Every record translates to where it lies last."""
    offsets = world.state.maps[PLACE].offsets(world.state.progress[PLACE], world.ids)
    for entry in world.log:
        for number, source in enumerate(entry.sources):
            there = entry.header.base_offset + number
            target = offsets.source_to_target(source)
            assert target is not None
            assert target >= there, f"source offset {source}"


def bound_map(world: World, log_start: int) -> None:
    """The source's log moves on."""
    world.source_start = max(world.source_start, log_start)
    world.bound_map()


@MANY
@given(_worlds, _budgets, st.data())
def test_a_writer_that_dies_anywhere_loses_and_repeats_nothing(world, budgets, data):
    for budget in budgets:
        if world.copy(budget):
            break
        bound_map(world, data.draw(st.integers(0, world.position), label="the source's log start"))
        for _ in range(data.draw(st.integers(0, 2), label="drivers that die in the takeover")):
            world.fence()
        world.fence(other_id=data.draw(st.booleans(), label="another producer id"))
        for _ in range(data.draw(st.integers(1, 3), label="tries behind one fence")):
            assert not isinstance(world.take_over(), Stuck)
    assert world.copy(-1)
    assert world.arrived == expected(world)
    assert not world.told
    check_map(world)
    log_start = data.draw(st.integers(0, world.position), label="the source's log start at the end")
    world.retain(data.draw(st.sampled_from([0.0, 0.5, 1.0]), label="share of the copy removed"))
    bound_map(world, log_start)
    check_map(world)


@MANY
@given(_worlds, _budgets, st.data())
def test_a_target_that_loses_its_tail_gets_it_again(world, budgets, data):
    for budget in budgets:
        settled = world.copy(budget)
        before, progress = world.arrived, world.state.progress.get(PLACE)
        if settled and data.draw(st.booleans(), label="another lane goes on"):
            world.move()
            progress = None
        bound_map(world, 0)
        world.lose_tail(data.draw(st.integers(0, 8), label="batches lost"))
        told = ""
        for _ in range(data.draw(st.integers(1, 3), label="takeovers, of which the last one's driver lives")):
            world.fence()
            decision = world.take_over()
            assert isinstance(decision, Resume | Begin)
            told += str(decision.event)
        if progress is not None and progress.source in before and progress.source not in world.arrived:
            assert "lost the end of its log" in told
    assert world.copy(-1)
    assert world.arrived == expected(world)
    check_map(world)


@MANY
@given(_worlds, _budgets, st.data())
def test_what_retention_removed_is_neither_lost_nor_silently_repeated(world, budgets, data):
    for budget in budgets:
        if world.copy(budget):
            break
        bound_map(world, data.draw(st.integers(0, world.position), label="the source's log start"))
        world.retain(data.draw(st.sampled_from([0.0, 0.5, 1.0]), label="share removed"))
        world.fence()
        assert not isinstance(world.take_over(), Stuck)
    assert world.copy(-1)
    repeated = len(world.arrived) - len(set(world.arrived))
    assert set(world.arrived) == set(expected(world))
    assert not repeated or any("may be there twice" in event for event in world.told)
    if not world.shared and not any("may be there twice" in event for event in world.told):
        assert world.arrived == expected(world)


def test_an_epoch_of_which_retention_left_nothing_ends_on_record():
    """Or the map has the hole behind it for records, and what the next epoch sent there for them."""
    world = World(kept=[*[False] * 4, True, False, False, True], chance=Random(0))
    for budget, removed in ((0, 0.0), (5, 1.0), (3, 1.0)):
        assert not world.copy(budget)
        world.retain(removed)
        world.fence()
        assert isinstance(world.take_over(), Resume | Begin)
    assert world.copy(-1)
    assert world.arrived == [4, 7, 7]
    assert ["may be there twice" in event for event in world.told] == [True]


@MANY
@given(_worlds, _budgets, st.data())
def test_former_leaders_that_come_back_bring_nothing_twice_and_lose_nothing(world, budgets, data):
    """Leaders part with what nobody acknowledged, and come back by unclean elections, to and fro.

    The map is not promised where a takeover has found batches gone, and they come back.
    """
    away: list[list[Entry]] = []
    gone: set[TailBatch] = set()
    mapped = True
    for budget in budgets:
        world.copy(budget)
        away.append(list(world.log))
        wrote = world.batches
        if data.draw(st.booleans(), label="comes back"):
            world.come_back(away.pop(data.draw(st.integers(0, len(away) - 1), label="which")))
        else:
            world.lose_tail(data.draw(st.integers(0, 8), label="batches that only the leader had"))
        mapped = mapped and not gone & world.batches
        gone |= wrote - world.batches
        world.fence()
        assert not isinstance(world.take_over(), Stuck)
    assert world.copy(-1)
    assert world.arrived == expected(world)
    if mapped:
        check_map(world)


@settings(max_examples=400, deadline=None)
@given(_worlds, st.booleans(), st.data())
def test_the_first_batch_of_an_epoch_over_a_torn_log_loses_nothing(world, asks, data):
    """A run ends in order, or its lane dies; the next epoch is idle while the log is torn; then it writes.

    A lane that asks the leader first repeats nothing either. Where it was deceived, what it wrote behind the place at
    which the log was torn may be there twice, with an event, and what is written after the takeover is in order. Where
    others write, offsets alone may not tell: there a lane has to ask.
    """
    world.asks = asks or world.shared
    for _ in range(data.draw(st.integers(1, 3), label="runs")):
        if data.draw(st.booleans(), label="ends in order"):
            assert world.copy_some(data.draw(st.integers(0, 3), label="answers"))
            world.restart_cleanly()
        else:
            world.copy(data.draw(st.integers(0, 30), label="effects"))
            world.fence()
            assert not isinstance(world.take_over(), Stuck)
        if data.draw(st.booleans(), label="the idle epoch says so"):
            world.copy_some(0)
        world.lose_tail(data.draw(st.integers(0, 6), label="batches lost"))
        if world.shared and data.draw(st.booleans(), label="others write meanwhile"):
            world.others_write(data.draw(st.integers(1, 3)))
        if not world.copy_some(1) or world.end < world.reached:  # a lane looks at an idle log too, now and then
            world.fence()
            assert not isinstance(world.take_over(), Stuck)
    assert world.copy(-1)
    assert set(world.arrived) == set(expected(world))
    repeated = len(world.arrived) - len(set(world.arrived))
    assert not repeated or any("will be there twice" in event for event in world.told)
    assert not repeated or not world.asks
    last = {source: place for place, source in enumerate(world.arrived)}
    assert [*sorted(last, key=lambda source: last[source])] == expected(world)
    check_newest(world)


@MANY
@given(_worlds, _budgets, st.data())
def test_what_a_dead_writer_had_sent_to_the_internal_topic_changes_nothing_when_it_arrives_late(world, budgets, data):
    """A request outlives its process for as long as the kernel repeats it, so it may arrive after the takeover."""
    for budget in budgets:
        if world.copy(budget):
            break
        world.fence(other_id=data.draw(st.booleans(), label="another producer id"))
        assert not isinstance(world.take_over(), Stuck)
        if data.draw(st.booleans(), label="the map is bounded"):
            bound_map(world, 0)
        if data.draw(st.booleans(), label="late already"):
            world.speak_late()
        if data.draw(st.booleans(), label="torn meanwhile"):
            world.lose_tail(data.draw(st.integers(0, 3), label="batches lost"))
            world.fence()
            assert not isinstance(world.take_over(), Stuck)
    world.speak_late()
    assert world.copy(-1)
    check_map(world)
    world.fence()
    assert not isinstance(world.take_over(), Stuck)
    assert world.copy(-1)
    assert world.arrived == expected(world)
    check_map(world)


@settings(max_examples=1_000, deadline=None)
@given(_worlds, st.data())
def test_a_loss_that_a_lane_notices_only_after_it_has_written_more_is_made_good(world, data):
    """Others fill the log meanwhile, so that no offset shows what is missing."""
    world.shared = True
    for _ in range(data.draw(st.integers(1, 3), label="runs")):
        world.copy_some(data.draw(st.integers(1, 3), label="answers"))
        if data.draw(st.booleans(), label="ends in order"):
            world.restart_cleanly()
        else:
            world.fence()
            assert not isinstance(world.take_over(), Stuck)
        world.lose_tail(data.draw(st.integers(1, 6), label="batches lost"))
        world.others_write(data.draw(st.integers(1, 8), label="records of others"))
        world.copy_some(data.draw(st.integers(1, 3), label="answers before it asks"))
        world.ask_again()
        world.fence()
        assert not isinstance(world.take_over(), Stuck)
    assert world.copy(-1)
    assert set(world.arrived) == set(expected(world))
    repeated = len(world.arrived) - len(set(world.arrived))
    assert not repeated or any("will be there twice" in event for event in world.told)
    check_newest(world)


@settings(max_examples=500, deadline=None)
@given(_worlds, st.data())
def test_a_lane_that_is_told_of_a_loss_where_nothing_was_lost_repeats_nothing(world, data):
    """A broker has raised its epoch unnoticed, as one does that starts again before a partition's first batch."""
    for _ in range(data.draw(st.integers(1, 3), label="runs")):
        if data.draw(st.booleans(), label="others write first"):
            world.others_write(data.draw(st.integers(1, 4), label="records of others"))
            world.shared = True
        world.copy_some(data.draw(st.integers(1, 3), label="answers"))
        bound_map(world, data.draw(st.integers(0, world.position), label="the source's log start"))
        world.retain(data.draw(st.sampled_from([0.0, 0.0, 0.3]), label="share removed"))
        world.cut, world.torn = data.draw(st.integers(0, world.end), label="where the leader says it ends"), True
        world.ask_again()
        world.fence()
        assert not isinstance(world.take_over(), Stuck)
    assert world.copy(-1)
    assert world.arrived == expected(world) or any("may be there twice" in event for event in world.told)
    assert not any("lost the end" in event for event in world.told)


@settings(max_examples=1_000, deadline=None)
@given(_worlds, st.data())
def test_what_others_wrote_in_the_place_of_a_loss_may_be_cleaned_away_and_nothing_stays_lost(world, data):
    """Applications write to a compacted topic that was torn, and the log cleaner removes some of it, and of the copy.

    Leader epochs tell what lies below the loss. Of what the flow wrote before, what the cleaner took counts as there.
    """
    world.shared = world.asks = True
    for _ in range(data.draw(st.integers(1, 3), label="runs")):
        world.copy_some(data.draw(st.integers(0, 3), label="answers"))
        if data.draw(st.booleans(), label="dies"):
            world.copy(data.draw(st.integers(0, 30), label="effects"))
        lost = data.draw(st.integers(0, 6), label="batches lost")
        world.lose_tail(lost)
        world.others_write(data.draw(st.integers(1, 4), label="records of others"))
        world.others_write(data.draw(st.integers(1, 4), label="records of others behind them"))
        world.clean(data.draw(st.sampled_from([0.0, 0.3, 0.8]), label="share cleaned"))
        told = len(world.told)
        for _ in range(data.draw(st.integers(1, 2), label="takeovers, of which the last one's driver lives")):
            world.fence()
            assert not isinstance(world.take_over(), Stuck)
        assert lost or not any("lost the end" in event for event in world.told[told:])
    assert world.copy(-1)
    assert set(world.arrived) == set(expected(world))
    repeated = len(world.arrived) - len(set(world.arrived))
    assert not repeated or any("again" in event or "twice" in event for event in world.told)


def test_what_the_cleaner_removed_above_a_loss_is_not_lost_for_good_by_a_deeper_one():
    """Its writer epoch has nothing else; the driver of the takeover between the losses dies at once, or copies on."""
    for seed in range(60):
        chance = Random(seed)
        world = begun(World(kept=[chance.random() < 0.8 for _ in range(60)], chance=chance, shared=True))
        world.asks = True
        assert world.copy_some(2)
        left = world.end
        world.state.take(ended(PLACE, world.writer, world.sequence))
        world.restart_cleanly()
        assert world.copy_some(1)
        world.others_write(2)
        others = world.end
        assert world.copy_some(2)
        for entry in world.log:
            entry.cleaned = bool(entry.sources) and left <= entry.header.base_offset < others
        for end in (others, chance.randint(left, others)):
            world.lose_tail(sum(entry.header.last_offset >= end for entry in world.log))
            for _ in range(chance.randint(1, 2)):
                world.fence()
                assert not isinstance(world.take_over(), Stuck)
            world.copy_some(chance.randint(0, 1))
        assert world.copy(-1)
        assert set(world.arrived) == set(expected(world)), f"seed {seed}"


def test_a_copy_of_which_neither_log_nor_map_has_anything_comes_twice_with_an_event():
    """The internal topic falls back to where a writer epoch had sent nothing, and retention has removed the copies."""
    for seed in range(40):
        chance = Random(seed)
        world = begun(World(kept=[chance.random() < 0.8 for _ in range(30)], chance=chance))
        for _ in range(chance.randint(0, 2)):
            assert world.copy_some(1)
            world.fence()
            world.take_over()
        world.move()
        left = deepcopy(world.state)
        assert world.copy_some(2)
        world.state = left
        world.retain(1.0)
        world.fence()
        assert not isinstance(world.take_over(), Stuck)
        told = list(world.told)
        assert world.copy(-1)
        assert set(world.arrived) == set(expected(world))
        repeated = len(world.arrived) - len(set(world.arrived))
        assert repeated == len(world.arrived) - len(expected(world))
        assert bool(repeated) == any("may be there twice" in event for event in told), f"seed {seed}"


def test_a_loss_that_a_takeover_has_found_at_the_position_on_record_is_not_forgotten():
    """A deceived lane writes over the loss and dies, with nothing on record; the next one dies before it publishes."""
    for seed in range(60):
        world = begun(World(kept=[True] * 3, chance=Random(seed)))
        world.copy(4)
        world.fence()
        world.take_over()
        world.lose_tail(3)
        world.copy_some(1)
        for _ in range(2):
            world.fence()
            world.take_over()
            world.copy(0)
        world.fence()
        world.take_over()
        assert world.copy(-1)
        assert set(world.arrived) == set(expected(world)), f"seed {seed}"
