"""``sparkmirror pause``, ``resume`` and ``limit``: orders to running flows, which obey within seconds.

The orders are written by :mod:`sparkmirror.flow.operator`; this file shows what was ordered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sparkmirror.cli.options import Clusters, Files, Flow
from sparkmirror.cli.output import say

if TYPE_CHECKING:
    from sparkmirror.flow.operator import Ordered

Topics = Annotated[
    list[str], typer.Option("--topic", metavar="TOPIC", help="A topic, by its name on the source; may be repeated.")
]


def pause(files: Files, topic: Topics, flow: Flow = None, clusters: Clusters = None) -> None:
    """Stop copying topics until they are resumed; the rest of the flow goes on.

    The order is kept in the flow's internal topic, so it also holds after a restart. A flow that runs obeys within
    seconds.
    """
    from sparkmirror import config
    from sparkmirror.flow import operator

    _show(operator.pause(config.load(files, clusters=clusters or (), flow=flow), topic))


def resume(files: Files, topic: Topics, flow: Flow = None, clusters: Clusters = None) -> None:
    """Copy paused topics again, from where they stopped."""
    from sparkmirror import config
    from sparkmirror.flow import operator

    _show(operator.resume(config.load(files, clusters=clusters or (), flow=flow), topic))


def limit(
    files: Files,
    bytes_per_second: Annotated[
        int | None, typer.Option("--bytes-per-second", min=1024, help="What each flow may copy in a second.")
    ] = None,
    no_limit: Annotated[bool, typer.Option("--no-limit", help="No limit, whatever the configuration says.")] = False,
    as_configured: Annotated[
        bool, typer.Option("--as-configured", help="What max.bytes.per.second says holds again.")
    ] = False,
    flow: Flow = None,
    clusters: Clusters = None,
) -> None:
    """Change how fast flows may copy, without a restart.

    The order is kept in the flow's internal topic and wins over max.bytes.per.second until it is taken back with
    --as-configured.
    """
    from sparkmirror import config
    from sparkmirror.flow import operator

    if (bytes_per_second is not None) + no_limit + as_configured != 1:
        raise typer.BadParameter("give one of --bytes-per-second, --no-limit and --as-configured")
    loaded = config.load(files, clusters=clusters or (), flow=flow)
    _show(operator.limit(loaded, bytes_per_second, as_configured=as_configured))


def _show(orders: Sequence[Ordered]) -> None:
    for order in orders:
        when = "within seconds" if order.runs else "when it is started: it does not run now"
        say(f"{order.flow}: {order.what}, {when}")
