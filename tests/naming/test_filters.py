"""Includes, excludes, whole names."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from sparkmirror.config import GroupSettings
from sparkmirror.config.settings import CONFIG_PROPERTIES_EXCLUDE
from sparkmirror.errors import ConfigError
from sparkmirror.naming import ConfigPropertyFilter, TopicFilter, group_filter
from tests.naming.test_topics import FLOW


def test_an_expression_must_match_the_whole_name() -> None:
    chosen = TopicFilter(["orders", "pay.*"], [])
    assert chosen.matches("orders")
    assert chosen.matches("payments")
    assert not chosen.matches("orders2")
    assert not chosen.matches("my-orders")


def test_an_exclude_wins() -> None:
    chosen = TopicFilter([".*"], [".*secret", "orders"])
    assert chosen.matches("payments")
    assert not chosen.matches("orders")
    assert not chosen.matches("top-secret")
    assert chosen.included("orders")
    assert chosen.excluded("orders")


def test_no_includes_choose_nothing_and_no_excludes_forbid_nothing() -> None:
    assert not TopicFilter([], []).matches("orders")
    assert TopicFilter([".*"], []).matches("orders")


def test_a_wrong_expression_is_named_with_file_and_key() -> None:
    with pytest.raises(ConfigError, match=r"mm2\.properties: topics\.exclude: the expression"):
        TopicFilter([".*"], ["("], file="mm2.properties")


def test_a_filter_pickles() -> None:
    chosen = pickle.loads(pickle.dumps(TopicFilter(["a.*"], ["ab"])))
    assert chosen.matches("ac")
    assert not chosen.matches("ab")


def test_properties_that_belong_to_a_cluster_are_not_copied() -> None:
    copied = ConfigPropertyFilter(CONFIG_PROPERTIES_EXCLUDE)
    assert copied.matches("cleanup.policy")
    assert not copied.matches("min.insync.replicas")
    assert not copied.matches("follower.replication.throttled.replicas")


def test_groups_of_tools_are_not_chosen_unless_the_file_says_so() -> None:
    names = ("readers", "console-consumer-7", "connect-sink", "__ksql")
    assert [name for name in names if group_filter(FLOW).matches(name)] == ["readers"]
    every = replace(FLOW, groups=GroupSettings(exclude=()))
    assert all(group_filter(every).matches(name) for name in names)


def test_a_wrong_expression_for_groups_is_named_with_its_key() -> None:
    with pytest.raises(ConfigError, match=r"flow A->B: groups\.exclude: the expression"):
        group_filter(replace(FLOW, groups=GroupSettings(exclude=("(",))))
