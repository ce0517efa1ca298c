"""ACL bindings: who may read a topic at the source may read its copy.

Invariants: only what the target lacks is created. Nothing is removed that this flow did not create, by its record in
the internal topic, and that only where ``sync.topic.acls.remove`` says so and the source, which was asked and did
answer, has nothing left that the binding comes from; a topic that is no longer chosen is no reason. A binding that no
binding of the source can become, with the topics and groups that the flow chooses now, stays, whatever is on record:
others may have written there. A cluster without an authorizer is told of once.

Reference: MirrorMaker 2's ``MirrorSourceConnector.syncTopicAcls``, which creates all of them anew in each round.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sparkmirror.config import FlowConfig
from sparkmirror.duties import acl_translation, topics
from sparkmirror.duties.duty import Change, Result, Sides, Sign
from sparkmirror.duties.notes import Notes
from sparkmirror.duties.own_copies import NotOurs, of_others
from sparkmirror.errors import BrokerError, LinkError, SparkmirrorError
from sparkmirror.kafka import acls, admin
from sparkmirror.kafka.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from sparkmirror.kafka.cluster import Cluster
from sparkmirror.model import Alias
from sparkmirror.offsets.duty_records import AclRecord, acl_key

SCRAM_MS = 10_000
"""For a question whose answer is good to know and no more."""

_USER = "User:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What a round saw.

    Attributes:
        flow: the flow.
        source: the bindings of the source; None where it has no authorizer.
        chosen: the topics of the source that the flow copies.
        begun: those of which copies have begun.
        target: the bindings of the target; None where it has no authorizer.
        created: those that this flow created, by its record; empty where nothing is ever removed.
        foreign: how many more are on record that it cannot have created.
        others: target topics with the names of copies that are none: their bindings are left alone.
        lacking: SCRAM users of copied bindings that the source knows and the target does not, as far as they tell.
    """

    flow: FlowConfig
    source: frozenset[AclBinding] | None
    chosen: tuple[str, ...] = ()
    begun: topics.Begun = topics.NOTHING_BEGUN
    target: frozenset[AclBinding] | None = frozenset()
    created: frozenset[AclBinding] = frozenset()
    foreign: int = 0
    others: tuple[NotOurs, ...] = ()
    lacking: tuple[str, ...] = ()

    @property
    def wanted(self) -> frozenset[AclBinding]:
        """What the target should have."""
        return self.without_others(acl_translation.wanted(self.flow, self.source or (), self.chosen, self.begun))

    def without_others(self, bindings: frozenset[AclBinding]) -> frozenset[AclBinding]:
        """The bindings without those of topics that are not the flow's copies."""
        left_alone = {one.topic for one in self.others}
        return frozenset(one for one in bindings if not (_is_of_topic(one) and one.name in left_alone))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBinding:
    """The target lacks a binding, or has one that this flow created and that has left the source."""

    cluster: Alias
    sign: Sign
    binding: AclBinding

    @property
    def change(self) -> Change:
        """How it shows."""
        what = f"ACL of {self.binding.resource}"
        return Change(cluster=self.cluster, sign=self.sign, what=what, detail=self.binding.rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something that is not copied, and that its owner should know."""

    cluster: Alias
    what: str
    detail: str

    @property
    def change(self) -> Change:
        """How it shows."""
        return Change(cluster=self.cluster, sign=Sign.NOTE, what=self.what, detail=self.detail)


Action = ChangeBinding | Note | NotOurs


def decide(observed: Observed) -> tuple[Action, ...]:
    """What must be done so that the target has the bindings; nothing when it has."""
    flow = observed.flow
    if observed.source is None:
        return (_no_authorizer(flow.source.alias, "has ACLs to copy"),)
    if observed.target is None:
        return (_no_authorizer(flow.target.alias, "takes the ACLs of the source"),)
    alias = flow.target.alias
    # Denials come first: what is allowed to everybody is not open for a moment to who is denied it.
    missing = sorted(observed.wanted - observed.target, key=lambda each: (each.permission is not Permission.DENY, each))
    named = {one.name for each in observed.created for one in acl_translation.origins(flow, each)}
    gone = sorted(observed.without_others(observed.created) - acl_translation.standing(flow, observed.source, named))
    return (
        *(ChangeBinding(cluster=alias, sign=Sign.ADD, binding=binding) for binding in missing),
        *(ChangeBinding(cluster=alias, sign=Sign.REMOVE, binding=binding) for binding in gone),
        *_notes(observed),
        *observed.others,
    )


class TopicAcls:
    """The duty.

    Args:
        sides: of the flow.
    """

    name = "ACLs"

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self._notes: Notes[Note | NotOurs] = Notes()
        sync = sides.flow.acls
        self.interval_s: float | None = sync.interval_s if sync.enabled else None

    def look(self) -> tuple[Action, ...]:
        """Asks both clusters and says what is missing."""
        actions = decide(observe(self._sides))
        self._notes.stand(action for action in actions if isinstance(action, Note | NotOurs))
        return actions

    def apply(self, actions: Sequence[Action]) -> tuple[Result, ...]:
        """Creates and removes bindings on the target and keeps the record of that; a note is told once while it lasts.

        Raises:
            BrokerError: this user may not change the target's ACLs.
        """
        sides = self._sides
        timeout_ms = sides.flow.admin_timeout_ms
        created, removed = _with(Sign.ADD, actions), _with(Sign.REMOVE, actions)
        failed = dict(acls.create_acls(sides.target, created, timeout_ms).failed)
        failed |= acls.delete_acls(sides.target, removed, timeout_ms).failed
        _raise_if_forbidden(failed)
        unrecorded = self._record(
            [binding for binding in created if binding not in failed],
            [binding for binding in removed if binding not in failed],
        )
        return tuple(self._results(actions, failed, unrecorded))

    def _results(
        self, actions: Sequence[Action], failed: Mapping[AclBinding, BrokerError | LinkError], unrecorded: str
    ) -> Iterator[Result]:
        for action in actions:
            if isinstance(action, ChangeBinding):
                refusal = failed.get(action.binding)
                yield Result(action=action, failure=unrecorded if refusal is None else str(refusal))
            elif self._notes.tell(action):
                yield Result(action=action)

    def _record(self, created: Sequence[AclBinding], removed: Sequence[AclBinding]) -> str:
        """Puts it on record; gives why it could not."""
        store = self._sides.store
        if store is None or not (created or removed):
            return ""
        now_ms = int(time.time() * 1000)
        records = [AclRecord(binding=_words(binding), time_ms=now_ms) for binding in created]
        try:
            store.write(records, [acl_key(_words(binding)) for binding in removed])
        except SparkmirrorError as failure:
            return f"done, and not on record, so it will not be removed with its origin: {failure}"
        return ""


def observe(sides: Sides) -> Observed:
    """Looks at both clusters; the target is asked only where there is something to copy or to remove.

    Raises:
        ConfigError: an expression of the flow cannot be used.
        BrokerError: this user may not see ACLs.
        LinkError: one of the clusters cannot be asked.
    """
    flow, timeout_ms = sides.flow, sides.flow.admin_timeout_ms
    on_record = _on_record(sides)
    kinds = [ResourceType.TOPIC, ResourceType.GROUP] if flow.acls.groups else [ResourceType.TOPIC]
    source = acls.describe_acls(sides.source, kinds, timeout_ms)
    chosen, begun = _copied_topics(sides) if source or on_record else ((), topics.NOTHING_BEGUN)
    created = frozenset(binding for binding in on_record if acl_translation.can_come_of(flow, binding, chosen, begun))
    foreign = len(on_record) - len(created)
    seen = Observed(flow=flow, source=source, chosen=chosen, begun=begun, created=created, foreign=foreign)
    if not seen.wanted and not (created and source is not None):
        return seen
    seen = replace(seen, others=_others(sides, seen, seen.wanted | created))
    target = acls.describe_acls(sides.target, kinds, timeout_ms)
    lacking = () if target is None else _lacking_users(sides, seen.wanted)
    return replace(seen, target=target, lacking=lacking)


def _copied_topics(sides: Sides) -> tuple[tuple[str, ...], topics.Begun]:
    """The topics of the source that the flow copies, and of which of them copies have begun."""
    flow, timeout_ms = sides.flow, sides.flow.admin_timeout_ms
    chosen = tuple(topics.wanted(flow, admin.list_topics(sides.source, timeout_ms=timeout_ms)))
    copies = sorted({topics.remote_topic(flow, place.topic) for place in sides.progress})
    target = admin.list_topics(sides.target, copies, timeout_ms) if copies else {}
    return chosen, topics.begun_in(flow, sides.progress, target)


def _others(sides: Sides, seen: Observed, bindings: frozenset[AclBinding]) -> tuple[NotOurs, ...]:
    """The topics of bindings on the target that are not the flow's copies."""
    flow, copies = sides.flow, {one.name for one in bindings if _is_of_topic(one)}
    if not copies:
        return ()
    named = {one.name for one in seen.source or () if _is_of_topic(one)} | {*seen.chosen}
    named |= {
        one.name for binding in bindings if _is_of_topic(binding) for one in acl_translation.origins(flow, binding)
    }
    target = admin.list_topics(sides.target, sorted(copies), flow.admin_timeout_ms)
    pairs = [
        (here, there)
        for here, there, rival in topics.targets(flow, topics.wanted(flow, named), seen.begun)
        if not rival
    ]
    return of_others(sides, [pair for pair in pairs if pair[1] in copies], target)


def _is_of_topic(binding: AclBinding) -> bool:
    """Whether it is about one topic, by its name."""
    return binding.kind is ResourceType.TOPIC and not acl_translation.is_wide(binding)


def _on_record(sides: Sides) -> frozenset[AclBinding]:
    if sides.store is None or not sides.flow.acls.remove:
        return frozenset()
    sides.store.follow()
    found = (_binding(record) for record in sides.store.state.acls.values())
    return frozenset(binding for binding in found if binding is not None)


def _lacking_users(sides: Sides, wanted: frozenset[AclBinding]) -> tuple[str, ...]:
    users = {each.principal.removeprefix(_USER) for each in wanted if each.principal.startswith(_USER)}
    known = _scram_users(sides.source, users)
    there = _scram_users(sides.target, known) if known else None
    return () if not known or there is None else tuple(sorted(known - there))


def _scram_users(cluster: Cluster, users: Collection[str]) -> frozenset[str] | None:
    """Those that it knows; None where it does not tell, which harms nobody: bindings are copied all the same."""
    try:
        return acls.scram_users(cluster, users, SCRAM_MS) if users else frozenset()
    except SparkmirrorError:
        return None


def _notes(observed: Observed) -> Iterator[Note]:
    flow, bindings = observed.flow, observed.source or frozenset()
    wide = [each for each in bindings if acl_translation.is_wide(each) and _is_asked_for(flow, each)]
    if any(acl_translation.translate(flow, [_readable(each)]) for each in wide) and not flow.acls.prefixed:
        yield Note(
            cluster=flow.source.alias,
            what="ACLs of prefixes and of all topics",
            detail="are not copied, as in MirrorMaker 2; sync.topic.acls.prefixed=true copies what can be renamed",
        )
    if not all(acl_translation.translate(flow, [_readable(each)]) for each in wide):
        yield Note(
            cluster=flow.source.alias,
            what="ACLs of * whose names would stay the same",
            detail="are not copied: they would hold for all that the target has besides",
        )
    if observed.foreign:
        yield Note(
            cluster=flow.target.alias,
            what=f"{observed.foreign} ACLs on record",
            detail="cannot have come from this flow as it is configured, so they are not removed: it had another "
            "naming, or chose other topics or groups, or somebody else has written to its internal topic",
        )
    for user in observed.lacking:
        yield Note(
            cluster=flow.target.alias,
            what=f"SCRAM user {user}",
            detail=f"is known to {flow.source.alias} and not here, where ACLs are copied for it; "
            "passwords cannot be copied: create the user with kafka-configs.sh",
        )


def _is_asked_for(flow: FlowConfig, binding: AclBinding) -> bool:
    return flow.acls.groups or binding.kind is ResourceType.TOPIC


def _readable(binding: AclBinding) -> AclBinding:
    """The same binding with a right that is always copied, to see whether its name can be translated."""
    return replace(binding, operation=Operation.READ, permission=Permission.ALLOW)


def _no_authorizer(alias: Alias, otherwise: str) -> Note:
    return Note(
        cluster=alias,
        what="no authorizer",
        detail=f"ACLs are not copied until it {otherwise}; sync.topic.acls.enabled=false stops asking",
    )


def _raise_if_forbidden(failed: Mapping[AclBinding, BrokerError | LinkError]) -> None:
    """One missing right fails all of them in the same way, and is told once."""
    for failure in failed.values():
        if isinstance(failure, BrokerError) and failure.code == acls.CLUSTER_AUTHORIZATION_FAILED:
            raise failure


def _with(sign: Sign, actions: Sequence[Action]) -> list[AclBinding]:
    return [action.binding for action in actions if isinstance(action, ChangeBinding) and action.sign is sign]


def _words(binding: AclBinding) -> tuple[str, ...]:
    return (
        binding.kind.name,
        binding.name,
        binding.pattern.name,
        binding.principal,
        binding.host,
        binding.operation.name,
        binding.permission.name,
    )


def _binding(record: AclRecord) -> AclBinding | None:
    """The binding; None for one with words of a later release."""
    kind, name, pattern, principal, host, operation, permission = record.binding
    try:
        resource, how = ResourceType[kind], PatternType[pattern]
        return AclBinding(resource, name, how, principal, host, Operation[operation], Permission[permission])
    except KeyError:
        return None
