"""``sparkmirror acls``: prints the least rights that the flows of a configuration need, ready to be handed out.

What is needed, and why, is :mod:`sparkmirror.duties.rights`; how it is written is :mod:`sparkmirror.cli.acl_formats`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

import typer

from sparkmirror.cli import acl_formats
from sparkmirror.cli.acl_formats import ClusterRights, Grant
from sparkmirror.cli.options import Clusters, Files, Flow
from sparkmirror.config import FlowConfig, Side, load
from sparkmirror.duties.rights import Right, least, rights
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
) -> None:
    """Print the least rights that the flows of a configuration need, cluster by cluster.

    They follow the configuration: a duty that is switched off needs none. Contacts no cluster.
    """
    if not _PRINCIPAL.fullmatch(principal):
        raise typer.BadParameter(f"{principal!r} is no principal: write User:mirror", param_hint="--principal")
    if written_as is Format.STRIMZI and acl_formats.user_name(principal) is None:
        raise typer.BadParameter(
            "a KafkaUser is named with small letters, digits, dots and hyphens: write User:mirror, or User:CN=mirror",
            param_hint="--principal",
        )
    found = load(files, clusters=clusters or (), flow=flow)
    typer.echo(_WRITERS[written_as](by_cluster(found.flows, side), principal), nl=False)


def by_cluster(flows: Iterable[FlowConfig], side: Side) -> tuple[ClusterRights, ...]:
    """What all the flows together need on the clusters of one side, in the order of the file."""
    parts: dict[Alias, list[FlowConfig]] = {}
    for flow in flows:
        end = flow.source if side is Side.SOURCE else flow.target
        parts.setdefault(end.alias, []).append(flow)
    return tuple(
        ClusterRights(
            alias=alias,
            bootstrap_servers=(some[0].source if side is Side.SOURCE else some[0].target).admin.bootstrap_servers,
            flows=tuple(str(flow.name) for flow in some),
            grants=grants(right for flow in some for right in rights(flow, side)),
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
