"""What an ACL binding of the source becomes on the target, by name and by right.

MirrorMaker 2's rules hold for topics: who may write at the source may not write to the copy, who may do all may read
it, and what is denied stays denied. Ours, behind keys of their own: prefixes, and consumer groups. And one that is no
choice: of a denial that means everybody only reading is copied. The rest would shut out the mirror, which is how the
copy comes to be written; and a switchover denies writing at the source for a while.

Invariants: nothing is given on the target beyond what came from the source. So a denial of many topics that cannot be
copied as such is copied by name, for each copied topic of which something is allowed. A prefix is translated only where
every topic that it means is renamed to one with the translated prefix, and ``*`` never stays ``*``: that would open all
that the target has besides. Of topics that an own policy gives one name only the one that is copied there counts: who
may read another one may not read the copy. A translation does not ask whether a topic or a group is chosen; ``wanted``
does. Bindings of clusters, transactional ids, tokens and users become nothing.

Reference: ``MirrorSourceConnector`` (``shouldReplicateAcl``, ``targetAclBinding``). It takes ``*`` for a topic's name:
renamed it is ``A.*``, which no topic is called; under identity naming it would mean every topic of the target.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from sparkmirror.config import FlowConfig, PolicyKind
from sparkmirror.duties import topics
from sparkmirror.duties.topics import NOTHING_BEGUN, Begun
from sparkmirror.kafka.acls import (
    EVERYBODY,
    EVERYTHING,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from sparkmirror.naming import group_filter, policy_for

_OF_GROUPS = (Operation.READ, Operation.DESCRIBE)

_IMPLIED = {
    Operation.READ: (Operation.DESCRIBE,),
    Operation.DELETE: (Operation.DESCRIBE,),
    Operation.ALTER: (Operation.DESCRIBE,),
    Operation.ALTER_CONFIGS: (Operation.DESCRIBE_CONFIGS,),
}
"""What else a permission gives, as Kafka's ``AclAuthorizer`` and ``StandardAuthorizer`` have it."""


def wanted(
    flow: FlowConfig, bindings: Iterable[AclBinding], chosen: Collection[str], begun: Begun = NOTHING_BEGUN
) -> frozenset[AclBinding]:
    """The bindings that the target should have.

    Args:
        flow: the flow.
        bindings: of the source.
        chosen: the topics of the source that the flow copies.
        begun: those of which copies have begun. Of several with one name on the target only one is copied there.

    Raises:
        ConfigError: an expression of the flow cannot be used.
    """
    given = list(bindings)
    some = [binding for binding in given if flow.acls.prefixed or not is_wide(binding)]
    literal = {each.name for each in some if each.kind is ResourceType.TOPIC and not is_wide(each)}
    named = literal.union(chosen) if flow.acls.prefixed else literal
    copied, groups = _copied(flow, topics.wanted(flow, named), chosen, begun), group_filter(flow)
    some += _spelled_out(flow, given, some, copied)

    def is_chosen(binding: AclBinding) -> bool:
        if binding.kind is ResourceType.GROUP:
            return flow.acls.groups and groups.matches(binding.name)
        if is_wide(binding):
            prefix = "" if is_everything(binding) else binding.name
            return any(topic.startswith(prefix) for topic in chosen)
        return binding.name in copied

    return translate(flow, filter(is_chosen, _without_denied(given, some)))


def standing(flow: FlowConfig, bindings: Iterable[AclBinding], names: Iterable[str]) -> frozenset[AclBinding]:
    """What the bindings of the source stand for on the target, whether or not their topics and groups are chosen.

    Args:
        flow: the flow.
        bindings: of the source.
        names: topics of the source whose denials of many topics count by name, beside those that bindings name.
    """
    given = list(bindings)
    literal = {each.name for each in given if each.kind is ResourceType.TOPIC and not is_wide(each)}
    every = [*given, *_spelled_out(flow, given, given, literal.union(names))]
    return translate(flow, _without_denied(given, every))


def _without_denied(given: Iterable[AclBinding], some: Iterable[AclBinding]) -> list[AclBinding]:
    """Some of the bindings, without permissions of what everybody is denied: `_denied` copies no such denial.

    A permission of many topics goes where it is denied for one of them.
    """
    denials = [
        each
        for each in given
        if each.kind is ResourceType.TOPIC and each.permission is Permission.DENY and each.principal == EVERYBODY
    ]
    return [each for each in some if not any(_takes_back(denial, each) for denial in denials)]


def _takes_back(denial: AclBinding, binding: AclBinding) -> bool:
    if binding.kind is not ResourceType.TOPIC or binding.permission is not Permission.ALLOW:
        return False
    given = Operation.READ if binding.operation is Operation.ALL else binding.operation
    taken = {Operation.DESCRIBE, given} if denial.operation is Operation.ALL else {denial.operation}
    means = {given, *_IMPLIED.get(given, ())} - {Operation.READ}  # that denial is copied
    return bool(taken & means) and denial.host in (EVERYTHING, binding.host) and _meet(denial, binding)


def _meet(one: AclBinding, other: AclBinding) -> bool:
    """Whether a topic may be meant by both."""
    for here, there in ((one, other), (other, one)):
        if is_everything(here) or (here.pattern is PatternType.PREFIXED and there.name.startswith(here.name)):
            return True
    return one.name == other.name


def _spelled_out(
    flow: FlowConfig, given: Iterable[AclBinding], some: Iterable[AclBinding], copied: Iterable[str]
) -> list[AclBinding]:
    """Denials of many topics that cannot be copied as such, for each copied topic of which something is allowed.

    Or whom the source keeps out of a topic could read its copy.
    """
    denials = [
        each
        for each in given
        if each.kind is ResourceType.TOPIC and each.permission is Permission.DENY and is_wide(each)
        if not flow.acls.prefixed or _topic(flow, each) is None
    ]
    if not denials:
        return []
    allowing = [each for each in some if each.kind is ResourceType.TOPIC and each.permission is Permission.ALLOW]
    names = [name for name in copied if any(_means(each, name) for each in allowing)]
    return [
        replace(denial, name=name, pattern=PatternType.LITERAL)
        for denial in denials
        for name in names
        if _means(denial, name)
    ]


def _means(binding: AclBinding, topic: str) -> bool:
    if binding.pattern is PatternType.PREFIXED:
        return topic.startswith(binding.name)
    return binding.name in (topic, EVERYTHING)


def _copied(flow: FlowConfig, names: Iterable[str], chosen: Collection[str], begun: Begun) -> set[str]:
    """Those of the topics that have their names on the target; one that there is takes it from one that is to come."""
    owners = {there: here for here, there, rival in topics.targets(flow, chosen, begun) if rival is None}
    some = set(names)
    return {
        here
        for here, there, rival in topics.targets(flow, some.union(chosen), begun)
        if here in some and (owners[there] == here if there in owners else rival is None)
    }


def translate(flow: FlowConfig, bindings: Iterable[AclBinding]) -> frozenset[AclBinding]:
    """What the bindings become on the target, whether or not their topics and groups are chosen."""
    found = (_translated(flow, binding) for binding in bindings)
    return frozenset(binding for binding in found if binding is not None)


def can_come_of(flow: FlowConfig, binding: AclBinding, chosen: Collection[str], begun: Begun = NOTHING_BEGUN) -> bool:
    """Whether some binding of the source would become this one on the target, with the flow as it is configured now.

    What cannot is not the flow's, whatever its internal topic says: others may have written there. It may have made it
    when it was configured otherwise; such a one stays.

    Args:
        flow: the flow.
        binding: of the target.
        chosen: as for `wanted`.
        begun: likewise.

    Raises:
        ConfigError: an expression of the flow cannot be used.
    """
    return binding in wanted(flow, origins(flow, binding), chosen, begun)


def origins(flow: FlowConfig, binding: AclBinding) -> Iterator[AclBinding]:
    """The bindings of the source that could become this one; others too."""
    yield binding
    if binding.kind is not ResourceType.TOPIC:
        return
    if binding.pattern is PatternType.PREFIXED:
        if flow.policy.kind is PolicyKind.OWN:
            return
        prefix = topics.remote_topic(flow, "")
        yield replace(binding, name=EVERYTHING, pattern=PatternType.LITERAL)
        if binding.name.startswith(prefix):
            yield replace(binding, name=binding.name.removeprefix(prefix))
        return
    upstream = policy_for(flow.policy, flow.source.alias).upstream_topic(binding.name)
    for name in (upstream, topics.copy_of(flow, binding.name)):
        if name is not None:
            yield replace(binding, name=name)


def is_wide(binding: AclBinding) -> bool:
    """Whether it is about more than one resource."""
    return binding.pattern is PatternType.PREFIXED or is_everything(binding)


def is_everything(binding: AclBinding) -> bool:
    """Whether it is about all resources of its kind; as a prefix, ``*`` means names that begin with an asterisk."""
    return binding.pattern is PatternType.LITERAL and binding.name == EVERYTHING


def _translated(flow: FlowConfig, binding: AclBinding) -> AclBinding | None:
    match binding.kind:
        case ResourceType.TOPIC:
            renamed = _topic(flow, binding)
        case ResourceType.GROUP:
            renamed = _group(binding)
        case _:
            return None
    if renamed is None:
        return None
    if renamed.permission is Permission.DENY:
        return _denied(renamed)
    if renamed.operation is Operation.ALL:
        return replace(renamed, operation=Operation.READ)
    return None if renamed.operation is Operation.WRITE else renamed


def _denied(renamed: AclBinding) -> AclBinding | None:
    """Of denials that mean everybody, and so the mirror, only that of reading a topic is left.

    What the others deny nobody is given, see `_without_denied`.
    """
    if renamed.kind is not ResourceType.TOPIC or renamed.principal != EVERYBODY:
        return renamed
    reads = renamed.operation in (Operation.READ, Operation.ALL)
    return replace(renamed, operation=Operation.READ) if reads else None


def _topic(flow: FlowConfig, binding: AclBinding) -> AclBinding | None:
    identity = flow.policy.keeps_names
    if not is_wide(binding):
        return replace(binding, name=topics.remote_topic(flow, binding.name))
    if flow.policy.kind is PolicyKind.OWN and not identity:
        return None  # nobody knows which names its answers for all topics with a prefix have in common
    if is_everything(binding):
        everything = None if identity else topics.remote_topic(flow, "")
        return None if everything is None else replace(binding, name=everything, pattern=PatternType.PREFIXED)
    return binding if identity else replace(binding, name=topics.remote_topic(flow, binding.name))


def _group(binding: AclBinding) -> AclBinding | None:
    """Groups keep their names, so all groups of the source cannot be told from those of the target."""
    if is_everything(binding):
        return None
    return binding if binding.operation in (*_OF_GROUPS, Operation.ALL) else None
