"""Flows that cannot work together."""

from __future__ import annotations

import pytest

from sparkmirror.config import load
from sparkmirror.errors import ConfigError

BASE = """\
clusters = A, B, C
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
C.bootstrap.servers = c:1
A->C.enabled = true
B->C.enabled = true
"""
IDENTITY = "replication.policy.class = IdentityReplicationPolicy"


@pytest.mark.parametrize(
    ("lines", "shared"),
    [
        ([], "the topics .*"),
        (["topics = orders"], "the topic orders"),
        (["A->C.topics = orders, a.*", "B->C.topics = b.*, orders"], "the topic orders"),
        (["A->C.topics = orders", "B->C.topics = ord.*"], "the topic orders"),
        (["A->C.topics = x, or.*", "B->C.topics = y, or.*"], "the topics or"),
    ],
)
def test_two_flows_that_write_the_same_topics_under_their_own_names_are_refused(load_lines, lines, shared):
    with pytest.raises(ConfigError, match=f"A->C and B->C would both write {shared}") as caught:
        load_lines(IDENTITY, *lines, base=BASE)
    assert caught.value.key == "B->C.topics"


@pytest.mark.parametrize(
    "lines",
    [
        ["A->C.topics = a.*", "B->C.topics = b.*"],
        ["A->C.topics = a.*, a.*, x, x", "B->C.topics = b.*"],
        ["A->C.topics = x, p", "B->C.topics = x, q", "topics.exclude = x"],
        ["A->C.topics = orders", "B->C.topics = ord.*", "B->C.topics.exclude = orders"],
        ["A->C.topics.exclude = a.*", "B->C.topics.exclude = b.*"],
        ["B->C.replication.policy.class = DefaultReplicationPolicy"],
        ["B->C.enabled = false", "C->A.enabled = true"],
    ],
)
def test_flows_that_may_write_other_topics_are_accepted(load_lines, lines):
    assert load_lines(IDENTITY, *lines, base=BASE).flows


def test_renamed_topics_do_not_meet(load_lines):
    assert len(load_lines(base=BASE).flows) == 2


def test_a_flow_in_two_files_is_refused(write):
    with pytest.raises(ConfigError, match="two of the files enable this flow"):
        load([write(name="1.properties"), write(name="2.properties")])


def test_an_alias_that_holds_the_separator_gets_a_warning(load_lines):
    base = "clusters = A, us.west\nA.bootstrap.servers = a:1\nus.west.bootstrap.servers = w:1\n"
    (warning,) = load_lines("A->us.west.enabled = true", base=base).warnings
    assert "the alias us.west contains the separator '.'" in warning


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("errors.tolerance = all", "errors.deadletterqueue.topic.name is not set: no record is dropped"),
        ("errors.deadletterqueue.topic.name = dead", "without effect while errors.tolerance is none"),
    ],
)
def test_half_of_what_puts_records_aside_gets_a_warning(load_lines, line, told):
    (warning,) = load_lines(line).warnings
    assert told in warning
    both = "errors.tolerance = all", "errors.deadletterqueue.topic.name = dead"
    assert load_lines(*both).warnings == ()


def test_bringing_home_what_kept_names_bring_anyway_gets_a_warning(load_lines):
    line = "homeward.enabled = true"
    (warning,) = load_lines(line, IDENTITY).warnings
    assert "homeward.enabled of A->B is without effect under IdentityReplicationPolicy" in warning
    assert load_lines(line).warnings == ()


def test_an_empty_list_of_topics_gets_a_warning(load_lines):
    (warning,) = load_lines("A->B.topics =").warnings
    assert "nothing is copied" in warning


RING = """\
clusters = A, B, C
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
C.bootstrap.servers = c:1
A->B.enabled = true
B->C.enabled = true
C->A.enabled = true
"""


@pytest.mark.parametrize(
    ("lines", "shared"),
    [
        ([], "the topics .*"),
        (["topics = orders"], "the topic orders"),
        (["A->B.topics = or.*", "B->C.topics = orders, x", "C->A.topics = ord.*"], "the topic orders"),
        (["provenance.header.enabled = true", "B->C.provenance.header.enabled = false"], "the topics .*"),
    ],
)
def test_a_ring_under_identity_naming_is_refused_without_provenance_headers(load_lines, lines, shared):
    with pytest.raises(ConfigError, match=r"[ABC]->[ABC], .* are a ring under identity naming, and copy") as caught:
        load_lines(IDENTITY, *lines, base=RING)
    assert caught.value.key == "provenance.header.enabled"
    assert shared in caught.value.reason


@pytest.mark.parametrize(
    "lines",
    [
        ["provenance.header.enabled = true"],
        ["A->B.topics = a.*"],
        ["A->B.topics = orders", "B->C.topics = orders", "C->A.topics = others"],
        ["C->A.enabled = false", "C->B.enabled = true", "C->B.topics = c.*", "B->A.enabled = true"],
        ["B->C.replication.policy.class = DefaultReplicationPolicy"],
    ],
)
def test_chains_both_ways_and_rings_that_can_be_told_apart_are_accepted(load_lines, lines):
    assert load_lines(IDENTITY, *lines, base=RING).flows


def test_many_clusters_that_mirror_each_other_are_looked_at_in_no_time(load_lines):
    """Ways through them are too many to be gone."""
    names = [f"c{number}" for number in range(14)]
    flows = [f"{one}->{other}" for one in names for other in names if one != other]
    base = f"clusters = {', '.join(names)}\n" + "".join(f"{name}.bootstrap.servers = {name}:1\n" for name in names)
    enabled = [
        line for flow in flows for line in (f"{flow}.enabled = true", f"{flow}.topics = {flow.replace('>', '')}.*")
    ]
    assert len(load_lines(IDENTITY, *enabled, base=base).flows) == len(flows)
    ring = [f"{one}->{other}.topics = same.*" for one, other in (("c0", "c1"), ("c1", "c2"), ("c2", "c0"))]
    with pytest.raises(ConfigError, match=r"c0->c1, c1->c2, c2->c0 are a ring .* the topics same"):
        load_lines(IDENTITY, *enabled, *ring, base=base)
