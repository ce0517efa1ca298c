"""Flows that cannot work, or not together.

Only what is certain is refused: two expressions may mean different topics, and only the clusters know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from sparkmirror.config.expressions import compile_list
from sparkmirror.config.settings import FlowConfig, PolicyKind, Tolerance
from sparkmirror.errors import ConfigError


def check_flow(flow: FlowConfig, file: str) -> None:
    """Sees that a flow's clusters are two.

    Raises:
        ConfigError: both sides name the same broker.
    """
    same = set(flow.source.admin.bootstrap_servers) & set(flow.target.admin.bootstrap_servers)
    if same:
        origins = dict(flow.origins)
        places = [
            origins.get(f"{side}.admin.bootstrap.servers", f"{end.alias}.bootstrap.servers")
            for side, end in (("source", flow.source), ("target", flow.target))
        ]
        raise ConfigError(
            file=file,
            key=f"{flow.name}.enabled",
            reason=f"{flow.source.alias} and {flow.target.alias} are one cluster: both name {min(same)}",
            remedy=f"see {places[0]} and {places[1]}",
        )


def check_together(flows: Sequence[FlowConfig], file: str, *, fan_in: bool = False) -> Iterator[str]:
    """Sees that no two flows write the same topics of one target.

    Args:
        flows: all that are to run.
        file: where they are from.
        fan_in: whether that is what their author wants.

    Yields:
        What to know about flows that do it all the same.

    Raises:
        ConfigError: they do: identity naming, one target, and a topic that both certainly copy.
    """
    for one, other in combinations(flows, 2):
        if one.name == other.name:
            raise ConfigError(file=file, key=f"{one.name}.enabled", reason="two of the files enable this flow")
        identity = one.policy.keeps_names and other.policy.keeps_names
        shared = _shared(one, other) if identity and one.name.target == other.name.target else None
        if shared is None:
            continue
        reason = f"{one.name} and {other.name} would both write {shared} of {one.name.target}"
        if not fan_in:
            raise ConfigError(
                file=file,
                key=f"{other.name}.topics",
                reason=reason,
                remedy="choose other topics for one of them, or use DefaultReplicationPolicy",
            )
        yield f"{file}: {reason}: their records arrive there in no fixed order between the sources"


def check_rings(flows: Sequence[FlowConfig], file: str) -> None:
    """Sees that no records of identity flows can come back to where they were born, over three clusters or more.

    Two clusters that mirror each other tell each other's batches by their writers; a longer way back is told by
    provenance headers only.

    Raises:
        ConfigError: such flows certainly copy one topic, and not all of them write and read these headers.
    """
    identity = [flow for flow in flows if flow.policy.keeps_names]
    for shared, some in _by_topic(identity):
        for flow in some:
            ring = () if flow.provenance_header else _ring(flow, some)
            if ring:
                names = ", ".join(str(each.name) for each in ring)
                raise ConfigError(
                    file=file,
                    key="provenance.header.enabled",
                    reason=f"{names} are a ring under identity naming, and copy {shared}: their records would come "
                    "back to where they were born",
                    remedy="set provenance.header.enabled = true for all of them, before their first run; or use "
                    "DefaultReplicationPolicy; or leave one of them out",
                )


def _by_topic(flows: Sequence[FlowConfig]) -> Iterator[tuple[str, tuple[FlowConfig, ...]]]:
    """Each topic or expression, and the flows that certainly copy it."""
    literals = dict.fromkeys(topic for flow in flows for topic in flow.topics if _literal(topic))
    copies = [(flow, _chooser(flow)) for flow in flows]
    for topic in literals:
        yield f"the topic {topic}", tuple(flow for flow, chooses in copies if chooses(topic))
    alike: dict[tuple[str, frozenset[str]], list[FlowConfig]] = {}
    for flow in flows:
        for expression in dict.fromkeys(each for each in flow.topics if not _literal(each)):
            alike.setdefault((expression, frozenset(flow.topics_exclude)), []).append(flow)
    for (expression, _), some in alike.items():
        yield f"the topics {expression}", tuple(some)


def _ring(flow: FlowConfig, flows: Sequence[FlowConfig]) -> tuple[FlowConfig, ...]:
    """The shortest way that begins with a flow and comes back over two others at least; empty without one."""
    home = flow.name.source
    ways: list[tuple[FlowConfig, ...]] = [(flow,)]
    seen = {flow.name.target}
    while ways:
        way = ways.pop(0)
        for onward in flows:
            if onward.name.source != way[-1].name.target or onward.name.target in seen:
                continue
            if onward.name.target != home:
                seen.add(onward.name.target)
                ways.append((*way, onward))
            elif len(way) > 1:
                return (*way, onward)
    return ()


def cautions(flow: FlowConfig) -> Iterator[str]:
    """What works, but not as people may expect."""
    if not flow.topics:
        yield f"the topics of {flow.name} are an empty list: nothing is copied"
    if flow.dead_letters.tolerance is Tolerance.ALL and not flow.dead_letters.active:
        yield (
            f"errors.tolerance of {flow.name} is all, and errors.deadletterqueue.topic.name is not set: no record is "
            "dropped for that, and one that the target topic cannot hold stops its partition"
        )
    if flow.dead_letters.topic and not flow.dead_letters.active:
        yield (
            f"errors.deadletterqueue.topic.name of {flow.name} is without effect while errors.tolerance is none: "
            "set that to all"
        )
    if flow.homeward and flow.policy.keeps_names:
        yield (
            f"homeward.enabled of {flow.name} is without effect under {flow.policy.name}: where topics keep their "
            "names, what others write goes to the other cluster anyway"
        )
    separator = flow.policy.separator
    for alias in (flow.source.alias, flow.target.alias):
        if flow.policy.kind is PolicyKind.DEFAULT and separator in alias:
            yield (
                f"the alias {alias} contains the separator {separator!r}: as in MirrorMaker 2, topics that come from "
                "it are not recognised as such, and are copied back to it once where flows run both ways"
            )


def _shared(one: FlowConfig, other: FlowConfig) -> str | None:
    """A topic or an expression that both flows certainly copy."""
    return next((shared for shared, some in _by_topic((one, other)) if len(some) > 1), None)


def _literal(expression: str) -> bool:
    return all(character.isalnum() or character in "_-" for character in expression)


def _chooser(flow: FlowConfig) -> Callable[[str], bool]:
    """Tells of a topic's name whether the flow copies it."""
    include = compile_list(flow.topics, file="", key="topics")
    exclude = compile_list(flow.topics_exclude, file="", key="topics.exclude")

    def chooses(topic: str) -> bool:
        return include is not None and include.matches(topic) is True and not (exclude and exclude.matches(topic))

    return chooses
