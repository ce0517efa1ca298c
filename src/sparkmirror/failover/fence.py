"""Keeps producers from a source: a rule that denies writing to the topics of a flow, recorded before it is made.

Invariants: only rules that were not there before are made, and only those are taken away again; what cannot be fenced
is said before anything is done. Whatever the record says, no other rules are taken away than those that are made here:
who writes to the flow's internal topic must not take away what others have denied.

A topic that no rule is about does not get its first one here: where brokers let everybody do everything with such
topics (``allow.everyone.if.no.acl.found``), a denial to write would also keep its readers out, the flow among them;
where they do not, nobody but super users may write there, and those no rule stops.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from sparkmirror.errors import SparkmirrorError
from sparkmirror.kafka.acls import (
    EVERYBODY,
    EVERYTHING,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    create_acls,
    delete_acls,
    describe_acls,
)
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.settings import broker_settings
from sparkmirror.model import is_topic_name

Rows = Sequence[Sequence[str]]
"""Bindings as they are kept on record: the words of each."""

_WORDS = 6
_OPEN = "allow.everyone.if.no.acl.found"
"""A setting of Kafka's authorizers; false unless it is set."""


def missing(source: Cluster, topics: Iterable[str], timeout_ms: int) -> tuple[AclBinding, ...]:
    """The rules that would keep everybody from writing to these topics, but for those that are there.

    Raises:
        SparkmirrorError: the cluster has no authorizer, does not tell this user, or lets everybody do everything with
            one of the topics.
    """
    known = describe_acls(source, [ResourceType.TOPIC], timeout_ms)
    if known is None:
        raise SparkmirrorError(
            f"cluster {source.alias} has no authorizer, so producers cannot be kept from it by ACLs: stop them, and "
            "leave out --fence-by-acl"
        )
    names = set(topics)
    bare = sorted(name for name in names if not any(_is_about(rule, name) for rule in known))
    if bare and _is_open(source, timeout_ms):
        raise SparkmirrorError(
            f"no ACL of cluster {source.alias} is about topic {bare[0]}"
            + (f" and {len(bare) - 1} more" if len(bare) > 1 else "")
            + f", and its brokers may have {_OPEN}: a first one that denies writing would also keep readers out, this "
            "mirror among them. Stop the producers and leave out --fence-by-acl, or give the topics' readers ACLs first"
        )
    return tuple(rule for rule in map(_denial, sorted(names.difference(bare))) if rule not in known)


def _is_about(rule: AclBinding, topic: str) -> bool:
    if rule.pattern is PatternType.PREFIXED:
        return topic.startswith(rule.name)
    return rule.name in (topic, EVERYTHING)


def _is_open(cluster: Cluster, timeout_ms: int) -> bool:
    """Whether topics without ACLs may be open to everybody: brokers tell that it is set, and hide to what."""
    told = broker_settings(cluster, [_OPEN], timeout_ms)
    return any(settings is None or _OPEN in settings for settings in told.values())


def denied(source: Cluster, topics: Collection[str], timeout_ms: int) -> frozenset[str]:
    """The topics that a rule of the form that is made here denies to everybody, also one that an administrator made.

    Raises:
        SparkmirrorError: the cluster does not tell this user.
    """
    known = describe_acls(source, [ResourceType.TOPIC], timeout_ms)
    return frozenset(rule.name for rule in rules_for(topics) if rule in (known or ()))


def rules_for(topics: Iterable[str]) -> tuple[AclBinding, ...]:
    """The rules that deny writing to topics; none for what would mean all of them."""
    return tuple(_denial(name) for name in sorted(set(topics)) if name != EVERYTHING)


def put_up(
    source: Cluster, rules: Sequence[AclBinding], timeout_ms: int, prove: Callable[[], None] = lambda: None
) -> None:
    """Makes the rules.

    Args:
        source: where.
        rules: which.
        timeout_ms: milliseconds until a request without an answer counts as failed.
        prove: sees right before each request that nobody has taken the operation over; raises where somebody has.

    Raises:
        SparkmirrorError: the cluster refuses one, or somebody has the operation.
    """
    create_acls(source, rules, timeout_ms, prove).complete()


def take_down(source: Cluster, rules: Sequence[AclBinding], timeout_ms: int) -> None:
    """Takes the rules away.

    Raises:
        SparkmirrorError: the cluster refuses.
    """
    delete_acls(source, rules, timeout_ms).complete()


def lift(cluster: Cluster, rows: Rows, timeout_ms: int) -> str:
    """Takes away the rules that are on record; gives what was done, for people.

    Raises:
        SparkmirrorError: the cluster refuses.
    """
    rules = rules_of(rows)
    if rules:
        take_down(cluster, rules, timeout_ms)
    others = len(rows) - len(rules)
    stay = f"; {others} rules on record are none that an operation makes, and stay as they are" if others else ""
    return f"writing to {len(rules)} topics is no longer denied on {cluster.alias}{stay}"


def rows_of(rules: Iterable[AclBinding]) -> list[list[str]]:
    """For the record."""
    return [
        [rule.kind.name, rule.name, rule.pattern.name, rule.principal, rule.host, rule.operation.name] for rule in rules
    ]


def rules_of(rows: Rows) -> tuple[AclBinding, ...]:
    """From the record: those of the form that is made here, and nothing else."""
    return tuple(rule for rule in map(_rule, rows) if rule is not None)


def _rule(row: object) -> AclBinding | None:
    """The rule of a row, if it is one that is made here."""
    if not isinstance(row, list | tuple) or len(row) != _WORDS or not isinstance(row[1], str):
        return None
    if not is_topic_name(row[1]):  # nor one that is about all of them
        return None
    rule = _denial(row[1])
    return rule if list(row) == rows_of([rule])[0] else None


def _denial(topic: str) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        PatternType.LITERAL,
        EVERYBODY,
        EVERYTHING,
        Operation.WRITE,
        Permission.DENY,
    )
