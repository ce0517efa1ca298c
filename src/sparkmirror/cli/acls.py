"""``sparkmirror acls``: prints the least rights that the flows of a configuration need, ready to be handed out.

What is needed, and why, is :mod:`sparkmirror.duties.rights`; how it is written is :mod:`sparkmirror.cli.acl_formats`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

from sparkmirror.cli import acl_formats
from sparkmirror.cli.acl_formats import ClusterRights, Grant
from sparkmirror.cli.options import Clusters, Files, Flow
from sparkmirror.config import Endpoint, MirrorConfig, Side, load
from sparkmirror.duties.rights import Right, least, pulse_rights, rights
from sparkmirror.model import Alias

_PRINCIPAL = re.compile(r"[A-Za-z]+:.+")


class Format(StrEnum):
    """How the rights are written."""

    KAFKA_ACLS = "kafka-acls"
    STRIMZI = "strimzi"
    TERRAFORM = "terraform"


_WRITERS = {
    Format.KAFKA_ACLS: acl_formats.kafka_acls,
    Format.STRIMZI: acl_formats.strimzi,
    Format.TERRAFORM: acl_formats.terraform,
}


def acls(
    files: Files,
    side: Annotated[Side, typer.Option("--for", help="The clusters that the flows read, or that they write.")],
    flow: Flow = None,
    clusters: Clusters = None,
    written_as: Annotated[
        Format, typer.Option("--format", help="Commands, a KafkaUser of Strimzi, or resources of Terraform.")
    ] = Format.KAFKA_ACLS,
    principal: Annotated[str, typer.Option("--principal", help="Who gets the rights.")] = "User:mirror",
    hand_over: Annotated[bool, typer.Option("--hand-over", help="Also what sparkmirror hand-over needs.")] = False,
    offsets_topic: Annotated[
        str,
        typer.Option(
            "--offsets-topic",
            metavar="TOPIC",
            help="Where Kafka Connect keeps MirrorMaker 2's positions, as for run --take-over mm2 and hand-over.",
        ),
    ] = "",
) -> None:
    """Print the least rights that the flows of a configuration need, cluster by cluster.

    They follow the configuration: a duty that is switched off needs none, and a pair of clusters whose flow is not
    enabled needs those for its heartbeats, unless they are off too. Taking over from MirrorMaker 2 at the first start
    is one of them (mm2.takeover.enabled). Contacts no cluster.
    """
    if not _PRINCIPAL.fullmatch(principal):
        raise typer.BadParameter(f"{principal!r} is no principal: write User:mirror", param_hint="--principal")
    if written_as is Format.STRIMZI and acl_formats.user_name(principal) is None:
        raise typer.BadParameter(
            "a KafkaUser is named with small letters, digits, dots and hyphens: write User:mirror, or User:CN=mirror",
            param_hint="--principal",
        )
    found = load(files, clusters=clusters or (), flow=flow)
    if offsets_topic:
        found = with_offsets_topic(found, offsets_topic)
    if hand_over:
        _check_offsets_topic(found)
    typer.echo(_WRITERS[written_as](by_cluster(found, side, hand_over=hand_over), principal), nl=False)


def with_offsets_topic(found: MirrorConfig, topic: str) -> MirrorConfig:
    """The same flows, ordered to take over from a topic of offsets (``run --take-over mm2 --offsets-topic``)."""
    ordered = tuple(
        replace(flow, stored_positions=replace(flow.stored_positions, topic=topic, takeover=True))
        for flow in found.flows
    )
    return replace(found, flows=ordered)


def _check_offsets_topic(found: MirrorConfig) -> None:
    from sparkmirror.flow.mirror_maker import offsets_topic

    for flow in found.flows:
        offsets_topic(flow, found.file, "")


def by_cluster(found: MirrorConfig, side: Side, *, hand_over: bool = False) -> tuple[ClusterRights, ...]:
    """What all the flows together need on the clusters of one side, in the order of the file; then those that beat."""
    parts: dict[Alias, list[tuple[Endpoint, str, tuple[Right, ...]]]] = {}
    needs = [(flow, str(flow.name), rights(flow, side, hand_over=hand_over)) for flow in found.flows]
    needs += [(pair, f"{pair.name} (heartbeats alone)", pulse_rights(pair, side)) for pair in found.pulses]
    for flow, name, needed in needs:
        end = flow.source if side is Side.SOURCE else flow.target
        if needed:
            parts.setdefault(end.alias, []).append((end, name, needed))
    return tuple(
        ClusterRights(
            alias=alias,
            bootstrap_servers=some[0][0].admin.bootstrap_servers,
            flows=tuple(name for _, name, _ in some),
            grants=grants(right for _, _, needed in some for right in needed),
        )
        for alias, some in parts.items()
    )


def grants(found: Iterable[Right]) -> tuple[Grant, ...]:
    """One for each resource, with all that is allowed there; nothing that another one covers."""
    places: dict[tuple[int, str, int], list[Right]] = {}
    for right in least(found):
        places.setdefault((right.kind, right.name, right.pattern), []).append(right)
    return tuple(
        Grant(
            kind=some[0].kind,
            name=some[0].name,
            pattern=some[0].pattern,
            operations=tuple(sorted({right.operation for right in some})),
            reasons=tuple(dict.fromkeys(right.reason for right in some)),
        )
        for some in places.values()
    )
