"""Includes, excludes, whole names."""

from __future__ import annotations

import pickle

import pytest

from sparkmirror.config.settings import CONFIG_PROPERTIES_EXCLUDE
from sparkmirror.errors import ConfigError
from sparkmirror.naming import ConfigPropertyFilter, TopicFilter


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
