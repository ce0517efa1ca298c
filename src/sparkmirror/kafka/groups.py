"""Consumer groups of a cluster: which there are, what they have committed, and committing for them.

Invariants: every broker is asked for its groups, since each knows only those that it coordinates; a group that fails
stops no other (`Results`); errors that pass are tried again as `codes.advice` says, the coordinator looked up anew each
time. A commit names no member and no generation, as an administrator's does: brokers refuse it for a group that has
members, whatever was seen before.

References: ListGroups with states (KIP-518) and types (KIP-848), DescribeGroups (KIP-1043), FindCoordinator for
many (KIP-699), OffsetFetch for many (KIP-709); ``KafkaAdminClient.listConsumerGroupOffsets``,
``alterConsumerGroupOffsets``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import count, zip_longest
from typing import Any, NamedTuple, TypeVar

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest, MetadataRequest

from sparkmirror.errors import BrokerError, FencedError, LinkError
from sparkmirror.kafka.acls import Operation
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.kafka.codes import UNAUTHORIZED, UNKNOWN_SERVER_ERROR, name_of
from sparkmirror.kafka.leaders import once_together, together
from sparkmirror.kafka.metadata import topics_of
from sparkmirror.kafka.ownership import Moment, this_moment
from sparkmirror.kafka.rounds import ADMIN_MS, Answer, Deadline, Results, chunks, out_of_time, repeat
from sparkmirror.kafka.store import AT_ONCE_SECONDS
from sparkmirror.model import NO_OFFSET, TopicPartition

P = TypeVar("P")
V = TypeVar("V")

COORDINATOR_NOT_AVAILABLE = 15
UNSTABLE = 88
"""What a broker answers where a transaction that commits offsets of a group is open, to who waits for it."""

HAS_MEMBERS = frozenset({22, 25, 27, 82, 110, 113})
"""What a broker answers to a commit for a group that is not empty: the generation, member or epoch is not known."""

TAKEN_BY_NONE = frozenset({-1, 12, 28})
"""What a broker answers to a commit that it does not take of this group, whatever is waited for: an error of its own,
metadata that are too long, offsets that are too many for a batch."""

GROUPS_AT_ONCE, FEWER = 50, 5
"""Of groups that are asked about again a fifth is asked about at once, each time: the answer may have been too large
(``decoding.MOST_STRUCTS``)."""

KEYS_AT_ONCE = 500
COMMIT_BYTES = 500_000
"""Of one request with offsets. A coordinator writes what it takes of it as one batch, which a topic with the default
``max.message.bytes`` takes up to 1 MB of."""

ROW_BYTES = 80
"""Of an offset there, at most, beside the names and the metadata."""

CHECKED_AT_ONCE = 8
"""Groups of one coordinator that are looked at once more before the first of them is committed: few, since what a
consumer commits between that look and the commit is lost."""

SENT_AT_ONCE = 4
"""Of these: requests that a coordinator may owe an answer. A commit takes as long as its broker is far."""

FRESH_SECONDS = 3.0
"""So old the look may be when the commit leaves. A broker that does not answer makes the look at all others old."""

LOOKS, QUICK_SECONDS = 3, 0.5
"""A look that took longer is repeated, without the brokers that it has waited for, so many times at most."""

OFFSETS_TOPIC = "__consumer_offsets"
"""The leader of a group's partition there is its coordinator, and alone lists it."""

UNLISTED_MS = 3_000
"""So long groups that no broker lists keep others waiting: as a rule they are gone, or have no coordinator."""

ATTEMPT_MS = 10_000
"""For one answer of a coordinator: after that it is looked up anew."""

_STABLE_FETCH = 7
_BATCHED_FIND, _BATCHED_FETCH = 4, 8
_DEAD_DESCRIBE = 5
"""The last version that describes an unknown group as Dead."""
_NAMES_FETCH, _NAMES_COMMIT = 9, 9
"""The last versions that name topics; later ones know topic ids only."""


class GroupKind(Enum):
    """Which protocol the members of a group speak, by the names that brokers give it."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    UNTOLD = ""
    """Brokers before 3.8, which know only classic groups, or a kind that a later release added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """A group as its coordinator lists it.

    Attributes:
        name: of the group.
        kind: of the group.
        protocol: ``consumer``; ``connect`` and others are no consumers; "" for a group that only ever committed.
        state: such as ``Stable``; "" from brokers before 2.6.
    """

    name: str
    kind: GroupKind = GroupKind.CLASSIC
    protocol: str = "consumer"
    state: str = ""

    @property
    def active(self) -> bool:
        """Whether it has members, as far as it is told."""
        return self.state.lower() not in ("", "empty", "dead")


class GroupList(dict[str, GroupListing]):
    """All groups of a cluster that this user may see, by name.

    Args:
        groups: by name.
        leaderless: the partitions of ``__consumer_offsets`` that have no leader, whose groups no broker lists; none
            where this user may not DESCRIBE the topic.
        hidden: why that is not known, or "".

    Attributes:
        leaderless: as given.
        hidden: as given.
    """

    def __init__(self, groups: Mapping[str, GroupListing], leaderless: Sequence[int] = (), hidden: str = "") -> None:
        super().__init__(groups)
        self.leaderless, self.hidden = leaderless, hidden


class Committed(NamedTuple):
    """An offset that a group has committed: that of the next record to read."""

    offset: int
    metadata: str = ""


Offsets = Mapping[TopicPartition, Committed]


class ChangedError(LinkError):
    """A group has been given other offsets since it was looked at: what was decided then may not be right any more.

    Attributes:
        tried: whether a request of ours may have reached the coordinator before: its answer was lost.
    """

    def __init__(self, *, cluster: str, address: str, group: str, tried: bool) -> None:
        self.tried = tried
        reason = f"group {group} has been given other offsets since it was looked at, or is about to be"
        super().__init__(cluster=cluster, address=address, reason=reason, lasting=True)


class Member(NamedTuple):
    """A member of a group of the classic protocol, in the bytes of the group's own protocol."""

    metadata: bytes
    assignment: bytes


class Described(NamedTuple):
    """A group of the classic protocol as its coordinator describes it.

    Attributes:
        protocol: as for `GroupListing`.
        state: of the group; ``Dead`` where there is none.
        members: with empty bytes unless the group is Stable.
    """

    protocol: str
    state: str
    members: tuple[Member, ...]

    @property
    def active(self) -> bool:
        """Whether it has members."""
        return self.state.lower() not in ("empty", "dead")

    @property
    def settled(self) -> bool:
        """Whether what members were given is known, or there are none."""
        return self.state.lower() == "stable" or not self.active


def list_groups(cluster: Cluster, timeout_ms: int = ADMIN_MS, *, complete: bool = False) -> GroupList:
    """All groups that this user may see, by name.

    Args:
        cluster: where.
        timeout_ms: milliseconds until that fails.
        complete: whether groups that no broker lists, since they have no coordinator, are waited for, and are a failure
            in the end.

    Raises:
        BrokerError: a broker refuses to list its groups, or the list is not, or may not be, complete.
        LinkError: a broker could not be asked, so that its groups are not known.
    """

    def ask(_one: Sequence[str], deadline: Deadline) -> Iterable[Answer[str, GroupList]]:
        attempt_ms = min(deadline.attempt_ms, ATTEMPT_MS)
        topic = MetadataRequest.MetadataRequestTopic(name=OFFSETS_TOPIC)
        request = MetadataRequest(topics=[topic], allow_auto_topic_creation=False, min_version=4, max_version=8)
        try:  # all of them each time: groups of a broker that has died are with others a little later
            metadata = cluster.call(request, timeout_ms=attempt_ms)
        except LinkError as failure:
            yield Answer(key=cluster.alias, link=failure)
            return
        hindrance = _unknown_groups(cluster.alias, metadata) if complete else None
        yield hindrance or _listed(cluster, metadata, attempt_ms)

    return repeat([cluster.alias], ask, partial(_unlisted, cluster), timeout_ms, cluster.backoff).complete()[
        cluster.alias
    ]


def _leaderless(metadata: Any) -> list[int]:
    brokers = {broker.node_id for broker in metadata.brokers}
    parts = (part for topic in topics_of(metadata, [OFFSETS_TOPIC]) for part in topic.partitions)
    return sorted(part.partition_index for part in parts if part.leader_id not in brokers)


def _refused(metadata: Any) -> int:
    """The error code of a topic of group offsets that this user may not DESCRIBE, or 0."""
    codes = (topic.error_code for topic in topics_of(metadata, [OFFSETS_TOPIC]))
    return next((code for code in codes if code in UNAUTHORIZED), 0)


def _unknown_groups(alias: str, metadata: Any) -> Answer[str, GroupList] | None:
    """Why a list would not have all groups, or may not."""
    if code := _refused(metadata):
        return Answer(key=alias, code=code, message=OFFSETS_TOPIC)
    missing = ", ".join(map(str, _leaderless(metadata)[:5]))
    return Answer(key=alias, code=COORDINATOR_NOT_AVAILABLE, message=missing) if missing else None


def _listed(cluster: Cluster, metadata: Any, attempt_ms: int) -> Answer[str, GroupList]:
    """What all brokers list; the failure of one is that of all."""
    found: dict[str, GroupListing] = {}
    requests = {broker.node_id: ListGroupsRequest(states_filter=[], types_filter=[]) for broker in metadata.brokers}
    for node, answer in cluster.run(together, cluster, requests, attempt_ms).items():
        if isinstance(answer, LinkError):
            return Answer(key=cluster.alias, link=answer)
        if answer.error_code:
            return Answer(key=cluster.alias, code=answer.error_code, message=f"broker {node}")
        found |= {group.group_id: _listing(group) for group in answer.groups}
    code = _refused(metadata)
    hidden = str(_unlisted(cluster, cluster.alias, code, OFFSETS_TOPIC)) if code else ""
    return Answer(key=cluster.alias, value=GroupList(found, _leaderless(metadata), hidden))


def _unlisted(cluster: Cluster, _key: str, code: int, what: str) -> BrokerError:
    """Why groups cannot be listed; ``what`` is a broker, the topic, or partitions of it."""
    if what.startswith("broker "):
        name = f"{name_of(code)} for the list of groups of {what}"
        remedy = "allow DESCRIBE on the Cluster to this user" if code in (29, 30, 31) else ""
    elif what == OFFSETS_TOPIC:
        name = f"{name_of(code)} for {what}, so that whether all groups can be listed is not known"
        remedy = f"allow DESCRIBE on Topic {what} to this user"
    else:
        name = f"not all groups can be listed: {OFFSETS_TOPIC} has no leader for partitions {what}"
        remedy = "start the brokers that have these partitions"
    return BrokerError(code=code, name=name, cluster=cluster.alias, remedy=remedy)


def fetch_offsets(
    cluster: Cluster, groups: Sequence[str], timeout_ms: int = ADMIN_MS, *, stable: bool = False
) -> Results[str, Offsets]:
    """What groups have committed, for every partition that this user may see; nothing for a group that is none.

    Args:
        cluster: where.
        groups: their names.
        timeout_ms: milliseconds until those without an answer count as failed.
        stable: whether transactions that commit offsets are waited for (KIP-447); brokers before 2.5 cannot tell.
    """
    rounds = count()

    def ask(names: Sequence[str], deadline: Deadline) -> Iterable[Answer[str, Offsets]]:
        waits = stable and _knows(cluster, OffsetFetchRequest, _STABLE_FETCH, deadline)
        many = _knows(cluster, OffsetFetchRequest, _BATCHED_FETCH, deadline)
        size = max(1, GROUPS_AT_ONCE // FEWER ** next(rounds)) if many else 1
        coordinators, answers = _coordinators(cluster, names, deadline)
        yield from answers
        pieces = {node: list(chunks(own, size)) for node, own in coordinators.items()}
        for piece, answer in _in_turn(
            cluster, pieces, lambda some: _fetch_request(some, many=many, stable=waits), deadline
        ):
            if isinstance(answer, LinkError):
                yield from (Answer(key=name, link=answer) for name in piece)
            else:
                yield from _read_fetched(answer, piece, many=many)

    return repeat(groups, ask, _explaining(cluster, "DESCRIBE"), timeout_ms, cluster.backoff)


def fetch_known(
    cluster: Cluster, groups: Collection[str], listed: Collection[str], timeout_ms: int = ADMIN_MS
) -> Results[str, Offsets]:
    """What groups have committed that are known to be, listed or not; nothing for one that is none any more.

    While a partition of ``__consumer_offsets`` has no leader no broker lists its groups: only a coordinator can say
    that a group is not there.

    Args:
        cluster: where.
        groups: their names.
        listed: what `list_groups` has given.
        timeout_ms: milliseconds until those without an answer count as failed; less for those that are not listed.
    """
    there, hidden = [name for name in groups if name in listed], [name for name in groups if name not in listed]
    found = fetch_offsets(cluster, sorted(there), timeout_ms)
    others = fetch_offsets(cluster, sorted(hidden), min(timeout_ms, UNLISTED_MS))
    return Results(found={**found.found, **others.found}, failed={**found.failed, **others.failed})


def describe_groups(cluster: Cluster, groups: Sequence[str], timeout_ms: int = ADMIN_MS) -> Results[str, Described]:
    """Groups of the classic protocol, asked of their coordinators by name.

    `list_groups` leaves out what this user may not see; this refuses.

    Args:
        cluster: where.
        groups: their names.
        timeout_ms: milliseconds until those without an answer count as failed.
    """
    return _asked_to_describe(cluster, groups, _described, timeout_ms, rights=False)


def group_rights(
    cluster: Cluster, groups: Sequence[str], timeout_ms: int = ADMIN_MS
) -> Results[str, frozenset[Operation]]:
    """What this user may do with groups, also with such as are not there; all where the cluster has no authorizer.

    Args:
        cluster: where.
        groups: their names.
        timeout_ms: milliseconds until those without an answer count as failed.
    """
    return _asked_to_describe(cluster, groups, _rights, timeout_ms, rights=True)


def _asked_to_describe(
    cluster: Cluster, groups: Sequence[str], read: Callable[[Any], V], timeout_ms: int, *, rights: bool
) -> Results[str, V]:
    def ask(names: Sequence[str], deadline: Deadline) -> Iterable[Answer[str, V]]:
        coordinators, answers = _coordinators(cluster, names, deadline)
        yield from answers
        pieces = {node: list(chunks(own, GROUPS_AT_ONCE)) for node, own in coordinators.items()}
        for piece, answer in _in_turn(cluster, pieces, partial(_describe_request, rights=rights), deadline):
            if isinstance(answer, LinkError):
                yield from (Answer(key=name, link=answer) for name in piece)
                continue
            for group in answer.groups:
                yield Answer(key=group.group_id, value=read(group), code=group.error_code)

    return repeat(groups, ask, _explaining(cluster, "DESCRIBE"), timeout_ms, cluster.backoff)


def commit_offsets(
    cluster: Cluster,
    offsets: Mapping[str, Offsets],
    timeout_ms: int = ADMIN_MS,
    *,
    prove: Callable[[], None] | None = None,
    there: Mapping[str, Offsets] | None = None,
) -> Results[str, None]:
    """Commits for groups without members; one that is unknown comes to be.

    A group that has members is a failure with a code of `HAS_MEMBERS`, and nothing of it is changed. Where only some
    partitions are refused, the group is a failure too, though the others are committed. The offsets of a group leave in
    as many requests as `COMMIT_BYTES` asks for.

    Args:
        cluster: where.
        offsets: by group.
        timeout_ms: milliseconds until those without an answer count as failed.
        prove: called right before requests leave; raises `FencedError` if this process may not commit any more. Where
            the cluster does not answer it, or it raises another `LinkError`, nothing is sent, and that is the failure
            of the groups that were left: what was sent before has its answer.
        there: what the groups had when this was decided, which is asked again right before. A group that has another
            offset by now, where one is to be committed, or is about to get one by a transaction, is a failure, a
            `ChangedError`, and nothing of it is changed. So is one that others have given the very offsets.
    """
    sent: set[str] = set()
    unchanged = None if there is None else partial(_unchanged, cluster, offsets, there, sent)

    def ask(names: Sequence[str], deadline: Deadline) -> Iterable[Answer[str, None]]:
        coordinators, answers = _coordinators(cluster, names, deadline)
        yield from answers
        lost: dict[int, LinkError] = {}

        def request(part: tuple[str, Offsets]) -> Any:
            sent.add(part[0])
            return _commit_request(*part)

        for some in [coordinators] if unchanged is None else _portions(coordinators, CHECKED_AT_ONCE):
            ready, sure = some, prove
            if unchanged is not None:
                for _ in range(LOOKS):
                    left = some.keys() - lost.keys()
                    if left and prove is not None and (failure := _unproven(cluster, prove)):  # it may take long
                        lost |= dict.fromkeys(some, failure)
                    looked = this_moment()
                    settled = unchanged(some, deadline, lost)
                    if this_moment().seconds_since(looked) < QUICK_SECONDS:
                        break
                yield from settled.values()
                ready = {node: [name for name in own if name not in settled] for node, own in some.items()}
                sure = partial(_prove_fresh, cluster, looked, prove)
            parts = {
                node: [part for name in own for part in _parts(name, offsets[name])] for node, own in ready.items()
            }
            yield from _one_each(_in_turn(cluster, parts, request, deadline, sure, lost, once=True))

    return repeat(list(offsets), ask, _explaining(cluster, "READ"), timeout_ms, cluster.backoff)


def _prove_fresh(cluster: Cluster, looked: Moment, prove: Callable[[], None] | None) -> None:
    """Sees that the look at groups is not old; after the proof, which may take long.

    Raises:
        LinkError: it is.
    """
    if prove is not None:
        prove()
    if this_moment().seconds_since(looked) > FRESH_SECONDS:
        reason = f"the look at what groups have is more than {FRESH_SECONDS:g} s old, since a broker does not answer"
        raise LinkError(cluster=cluster.alias, address=cluster.address, reason=reason)


def _portions(coordinators: Mapping[int, Sequence[str]], size: int) -> Iterator[dict[int, Sequence[str]]]:
    """So many groups of each coordinator at a time."""
    for start in range(0, max(map(len, coordinators.values()), default=0), size):
        yield {node: own[start : start + size] for node, own in coordinators.items() if len(own) > start}


def _unchanged(
    cluster: Cluster,
    wanted: Mapping[str, Offsets],
    there: Mapping[str, Offsets],
    sent: Collection[str],
    coordinators: Mapping[int, Sequence[str]],
    deadline: Deadline,
    lost: dict[int, LinkError],
) -> dict[str, Answer[str, None]]:
    """The answers for the groups for which nothing is to be committed any more.

    They have other offsets; or those that were to be committed, as a request of ours tells whose answer was lost.
    """
    many = _knows(cluster, OffsetFetchRequest, _BATCHED_FETCH, deadline)
    waits = _knows(cluster, OffsetFetchRequest, _STABLE_FETCH, deadline)
    pieces = {node: [own] if many else [[name] for name in own] for node, own in coordinators.items()}
    settled: dict[str, Answer[str, None]] = {}
    for piece, answer in _in_turn(
        cluster, pieces, lambda some: _fetch_request(some, many=many, stable=waits, wanted=wanted), deadline, lost=lost
    ):
        if isinstance(answer, LinkError):
            settled |= {name: Answer(key=name, link=answer, final=answer.lasting) for name in piece}
            continue
        for one in _read_fetched(answer, piece, many=many):
            if one.code and one.code != UNSTABLE:
                settled[one.key] = Answer(key=one.key, code=one.code, message=one.message)
                continue
            now, new = one.value or {}, wanted[one.key]
            known = [there.get(one.key, {}), *([new] if one.key in sent else [])]
            if one.key in sent and one.code != UNSTABLE and all(now.get(place) == each for place, each in new.items()):
                settled[one.key] = Answer(key=one.key)
            elif one.code == UNSTABLE or any(
                _at(now, place) not in [_at(each, place) for each in known] for place in new
            ):
                failure = ChangedError(
                    cluster=cluster.alias, address=cluster.address, group=one.key, tried=one.key in sent
                )
                settled[one.key] = Answer(key=one.key, link=failure, final=True)
    return settled


def _at(offsets: Offsets, place: TopicPartition) -> int:
    return offsets.get(place, Committed(NO_OFFSET)).offset


def _in_turn(
    cluster: Cluster,
    pieces: Mapping[int, Sequence[P]],
    request: Callable[[P], Any],
    deadline: Deadline,
    prove: Callable[[], None] | None = None,
    lost: dict[int, LinkError] | None = None,
    *,
    once: bool = False,
) -> Iterator[tuple[P, Any]]:
    """Each coordinator's pieces one after the other, all coordinators at once: a piece, and its answer or `LinkError`.

    One that does not answer is asked nothing more, and its failure stands for the rest: each would cost a wait. What is
    known of such in ``lost`` counts, and comes there. With ``once`` a request is not sent again where its connection
    breaks, nor later than `AT_ONCE_SECONDS` after the proof; `SENT_AT_ONCE` of them go to a coordinator together.
    """
    lost = {} if lost is None else lost
    size = SENT_AT_ONCE if once else 1
    for row in zip_longest(*(chunks(own, size) for own in pieces.values())):
        wanted = {node: list(some) for node, some in zip(pieces, row, strict=True) if some}
        if late := out_of_time(deadline, None, cluster.alias, cluster.address):
            lost.update(dict.fromkeys(pieces.keys() - lost.keys(), late))
        if prove is not None and not wanted.keys() <= lost.keys():
            lost.update(dict.fromkeys(pieces, failure) if (failure := _unproven(cluster, prove)) else {})
        refused = [(one, lost[node]) for node, some in wanted.items() if node in lost for one in some]
        sent = {node: some for node, some in wanted.items() if node not in lost}
        requests = {node: [request(one) for one in some] for node, some in sent.items()}
        answers = _exchanged(cluster, requests, min(deadline.attempt_ms, ATTEMPT_MS), once=once)
        lost |= {node: one for node, some in answers.items() for one in some if isinstance(one, LinkError)}
        yield from refused
        yield from (pair for node, some in sent.items() for pair in zip(some, answers[node], strict=True))


def _exchanged(
    cluster: Cluster, requests: Mapping[int, Sequence[Any]], attempt_ms: int, *, once: bool
) -> dict[int, Sequence[Any]]:
    """The answers of each broker, in order, with a `LinkError` in the place of one that failed."""
    if not requests:
        return {}
    if once:
        return dict(cluster.run(once_together, cluster, requests, attempt_ms, partial(_is_fresh, this_moment())))
    single = {node: request for node, (request,) in requests.items()}
    return {node: [answer] for node, answer in cluster.run(together, cluster, single, attempt_ms).items()}


def _is_fresh(proven: Moment) -> bool:
    return this_moment().seconds_since(proven) <= AT_ONCE_SECONDS


def _unproven(cluster: Cluster, prove: Callable[[], None]) -> LinkError | None:
    """Why the proof could not be had; that it was refused is raised."""
    try:
        prove()
    except FencedError:
        raise
    except LinkError as failure:
        return failure
    except BrokerError as failure:
        return LinkError(cluster=cluster.alias, address=cluster.address, reason=str(failure))
    return None


def _coordinators(
    cluster: Cluster, groups: Sequence[str], deadline: Deadline
) -> tuple[dict[int, list[str]], list[Answer[str, Any]]]:
    """The groups by the broker that coordinates them, and what is known of those that have none now."""
    found: dict[int, list[str]] = defaultdict(list)
    missing: list[Answer[str, Any]] = []
    size = KEYS_AT_ONCE if _knows(cluster, FindCoordinatorRequest, _BATCHED_FIND, deadline) else 1
    last: LinkError | None = None
    for piece in chunks(groups, size):
        if late := out_of_time(deadline, last, cluster.alias, cluster.address):
            missing += [Answer(key=name, link=late) for name in piece]
            continue
        request = FindCoordinatorRequest(
            key=piece[0],
            key_type=CoordinatorType.GROUP.value,
            coordinator_keys=list(piece),
            min_version=_BATCHED_FIND if size > 1 else 1,
            max_version=None if size > 1 else _BATCHED_FIND - 1,
        )
        try:
            answer = cluster.call(request, timeout_ms=min(deadline.attempt_ms, ATTEMPT_MS))
        except LinkError as failure:
            last = failure
            missing += [Answer(key=name, link=failure) for name in piece]
            continue
        last, unplaced = None, set(piece)
        for name, place in [(each.key, each) for each in answer.coordinators or ()] or [(piece[0], answer)]:
            if name not in unplaced:
                continue
            unplaced.remove(name)  # what an answer names twice is asked for once
            if place.error_code:
                missing.append(Answer(key=name, code=place.error_code))
            else:
                found[place.node_id].append(name)
    return dict(found), missing


def _knows(cluster: Cluster, request: Any, version: int, deadline: Deadline) -> bool:
    """Whether the brokers understand that version of a request, as far as the first one that was connected tells."""
    cluster.run(cluster.bootstrap, deadline.attempt_ms)
    known = cluster.connections.broker_version_data
    return known is not None and bool(known.api_versions.get(request.API_KEY, (0, 0))[1] >= version)


def _listing(group: Any) -> GroupListing:
    kinds = {kind.value: kind for kind in GroupKind}
    return GroupListing(
        name=group.group_id,
        kind=kinds.get((group.group_type or "").lower(), GroupKind.UNTOLD),
        protocol=group.protocol_type or "",
        state=group.group_state or "",
    )


def _described(group: Any) -> Described:
    members = (
        Member(bytes(each.member_metadata or b""), bytes(each.member_assignment or b"")) for each in group.members
    )
    return Described(group.protocol_type, group.group_state, tuple(members))


def _rights(group: Any) -> frozenset[Operation]:
    bits = group.authorized_operations  # None beside an error, and where a broker tells nothing
    return frozenset(each for each in Operation if bits is None or each in bits)


def _describe_request(groups: Sequence[str], *, rights: bool) -> Any:
    return DescribeGroupsRequest(groups=list(groups), include_authorized_operations=rights, max_version=_DEAD_DESCRIBE)


def _fetch_request(
    groups: Sequence[str], *, many: bool, stable: bool, wanted: Mapping[str, Offsets] | None = None
) -> Any:
    """Asks for what groups have in the partitions that are wanted of them; without, in all where they have anything.

    Only of a partition that is named brokers say that a transaction commits the group's first offset there.
    """
    wire = OffsetFetchRequest.OffsetFetchRequestGroup
    single, several = OffsetFetchRequest.OffsetFetchRequestTopic, wire.OffsetFetchRequestTopics

    def topics(name: str, kind: Any) -> list[Any] | None:
        if wanted is None:
            return None
        partitions: dict[str, list[int]] = defaultdict(list)
        for place in sorted(wanted[name]):
            partitions[place.topic].append(place.partition)
        return [kind(name=topic, partition_indexes=numbers) for topic, numbers in partitions.items()]

    return OffsetFetchRequest(
        group_id=groups[0],
        topics=topics(groups[0], single),
        groups=[wire(group_id=name, member_id=None, member_epoch=-1, topics=topics(name, several)) for name in groups],
        require_stable=stable,
        min_version=_BATCHED_FETCH if many else 2,
        max_version=_NAMES_FETCH if many else _BATCHED_FETCH - 1,
    )


def _read_fetched(answer: Any, groups: Sequence[str], *, many: bool) -> Iterable[Answer[str, Offsets]]:
    for name, group in [(each.group_id, each) for each in answer.groups] if many else [(groups[0], answer)]:
        found = {
            TopicPartition(topic.name, part.partition_index): Committed(part.committed_offset, part.metadata or "")
            for topic in group.topics
            for part in topic.partitions
            if part.error_code == 0 and part.committed_offset >= 0
        }
        unstable = any(part.error_code == UNSTABLE for topic in group.topics for part in topic.partitions)
        yield Answer(key=name, value=found, code=UNSTABLE if unstable else group.error_code)


def _commit_request(group: str, offsets: Offsets) -> Any:
    wire = OffsetCommitRequest.OffsetCommitRequestTopic
    topics: dict[str, list[Any]] = defaultdict(list)
    for place, committed in sorted(offsets.items()):
        topics[place.topic].append(
            wire.OffsetCommitRequestPartition(
                partition_index=place.partition,
                committed_offset=committed.offset,
                committed_leader_epoch=-1,
                committed_metadata=committed.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        retention_time_ms=-1,
        topics=[wire(name=name, partitions=partitions) for name, partitions in topics.items()],
        max_version=_NAMES_COMMIT,
    )


def _parts(group: str, offsets: Offsets) -> Iterator[tuple[str, Offsets]]:
    """The offsets of a group in portions that a coordinator can write."""
    part: dict[TopicPartition, Committed] = {}
    size = 0
    for place, committed in sorted(offsets.items()):
        row = ROW_BYTES + sum(len(text.encode()) for text in (group, place.topic, committed.metadata))
        if part and size + row > COMMIT_BYTES:
            yield group, part
            part, size = {}, 0
        part[place] = committed
        size += row
    yield group, part


def requests_of(group: str, offsets: Offsets) -> dict[TopicPartition, int]:
    """The number of the request that each offset of a group leaves in; a coordinator takes all of a request or none."""
    return {place: number for number, (_, part) in enumerate(_parts(group, offsets)) for place in part}


def _one_each(answers: Iterable[tuple[tuple[str, Offsets], Any]]) -> Iterable[Answer[str, None]]:
    """What became of each group: the failure of a portion is that of all of it."""
    found: dict[str, Answer[str, None]] = {}
    for (name, offsets), answer in answers:
        failed = isinstance(answer, LinkError)
        one = Answer(key=name, link=answer, final=answer.lasting) if failed else _read_committed(name, offsets, answer)
        if name not in found or found[name] == Answer(key=name):
            found[name] = one
    return found.values()


def _read_committed(group: str, offsets: Offsets, answer: Any) -> Answer[str, None]:
    codes = {
        TopicPartition(topic.name, part.partition_index): part.error_code
        for topic in answer.topics
        for part in topic.partitions
    }
    for place in offsets:
        code = codes.get(place, UNKNOWN_SERVER_ERROR)
        if code:
            return Answer(key=group, code=code, message=str(place))
    return Answer(key=group)


def _explaining(cluster: Cluster, operation: str) -> Any:
    def explain(group: str, code: int, place: str) -> BrokerError:
        remedy = {
            3: f"{place} is not there",
            12: "offset.metadata.max.bytes of the cluster is below that of the other one",
            28: f"max.message.bytes of {OFFSETS_TOPIC} there is too small for it",
            -1: f"the broker's log has the reason, such as max.message.bytes of {OFFSETS_TOPIC}",
            29: f"allow READ on the topic of {place} to this user",
            30: f"allow {operation} on Group {group} to this user",
            69: "it is there as a group of another kind",
            UNSTABLE: "a transaction with its offsets is open: its producer, or transaction.timeout.ms, has to end it",
        }.get(code, "")
        name = f"{name_of(code)} for group {group}"
        return BrokerError(code=code, name=name, cluster=cluster.alias, remedy=remedy)

    return explain
