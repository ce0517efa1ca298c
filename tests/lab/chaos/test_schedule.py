from __future__ import annotations

from collections import Counter

import pytest

from sparkmirror.lab.chaos.schedule import Kind, Resource, Side, schedule


def test_a_seed_says_everything() -> None:
    assert schedule(7, 40, 600.0) == schedule(7, 40, 600.0)
    assert schedule(7, 40, 600.0) != schedule(8, 40, 600.0)


def test_a_schedule_is_the_same_everywhere() -> None:
    first = schedule(7, 3, 60.0)[0]
    assert (first.at_s, first.kind, first.side, first.pick) == (8.17, Kind.HALF_OPEN, Side.B, 0.223239)


@pytest.mark.parametrize("seed", range(20))
def test_every_kind_comes_before_another_comes_again(seed: int) -> None:
    faults = schedule(seed, 2 * len(Kind) + 3, 100.0)
    counts = Counter(fault.kind for fault in faults)
    assert set(counts) == set(Kind)
    assert max(counts.values()) - min(counts.values()) <= 1


def test_faults_are_numbered_in_the_order_of_their_moments_within_the_time() -> None:
    faults = schedule(3, 50, 100.0)
    assert [fault.number for fault in faults] == list(range(1, 51))
    assert [fault.at_s for fault in faults] == sorted(fault.at_s for fault in faults)
    assert faults[0].at_s >= 3.0
    assert faults[-1].at_s <= 100.0


def test_only_what_can_be_made_is_scheduled() -> None:
    kinds = {Kind.CUT, Kind.KILL_WORKER}
    assert {fault.kind for fault in schedule(1, 10, 10.0, kinds)} == kinds
    assert schedule(1, 10, 10.0, ()) == ()


def test_data_is_lost_and_disks_are_full_on_the_target_alone() -> None:
    faults = schedule(5, 300, 100.0)
    sides = {kind: {fault.side for fault in faults if fault.kind is kind} for kind in Kind}
    assert sides[Kind.UNCLEAN] == sides[Kind.TORN_IDLE] == sides[Kind.DISK_FULL] == {Side.B}
    assert sides[Kind.KILL_BROKER] == sides[Kind.CUT] == sides[Kind.HEALED_STOP] == set(Side)


def test_faults_of_brokers_of_one_cluster_exclude_each_other() -> None:
    held = {fault.resource for fault in schedule(5, 300, 100.0) if fault.kind in (Kind.UNCLEAN, Kind.DISK_FULL)}
    assert held == {Resource.BROKERS_B}
    brokers = {fault.resource for fault in schedule(5, 300, 100.0) if fault.kind is Kind.KILL_BROKER}
    assert brokers == {Resource.BROKERS_A, Resource.BROKERS_B}


def test_clocks_of_brokers_stay_within_what_brokers_take() -> None:
    steps = [fault.amount for fault in schedule(5, 500, 100.0) if fault.kind is Kind.BROKER_CLOCK]
    assert min(steps) < -1_000
    assert max(steps) > 1_000
    assert max(map(abs, steps)) < 3_600


def test_what_restarts_the_driver_and_takes_brokers_away_excludes_both_sorts() -> None:
    held = {fault.kind: fault.resources for fault in schedule(5, 300, 100.0, {Kind.TORN_IDLE, Kind.HEALED_STOP})}
    assert held == {
        Kind.TORN_IDLE: (Resource.MIRROR, Resource.BROKERS_B),
        Kind.HEALED_STOP: (Resource.MIRROR,),
    }


def test_resources_are_held_in_one_order_so_that_nobody_waits_in_a_circle() -> None:
    order = list(Resource)
    for fault in schedule(5, 300, 100.0):
        assert [order.index(each) for each in fault.resources] == sorted(map(order.index, fault.resources))
        assert fault.resource in fault.resources


def test_a_healed_stop_ends_within_a_shift_and_pauses_workers_in_some_runs_only() -> None:
    faults = schedule(5, 100, 100.0, {Kind.HEALED_STOP})
    assert {fault.ways for fault in faults} == {1, 2, 3}
    assert all(0 <= fault.lasts_s <= 8 and 800 <= fault.amount <= 1_800 for fault in faults)
