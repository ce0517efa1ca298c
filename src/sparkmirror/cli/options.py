"""Arguments that several commands share, so that they read the same everywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sparkmirror.errors import ConfigError

if TYPE_CHECKING:
    from sparkmirror.config import FlowConfig

CLUSTERS = "--clusters"

Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="Configuration: MirrorMaker 2 properties, connector JSON, Strimzi YAML."),
]

Flow = Annotated[str | None, typer.Option("--flow", metavar="A->B", help="Only this flow.")]

OneFlow = Annotated[str | None, typer.Option("--flow", metavar="A->B", help="The flow, where there are several.")]

Clusters = Annotated[
    list[str] | None, typer.Option(CLUSTERS, metavar="NAME...", help="Only the flows into these clusters.")
]

Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark's master, spark://…; default: this process.")
]

Conf = Annotated[list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark.")]

Archive = Annotated[
    Path | None,
    typer.Option("--archive", metavar="FILE", help="A packed Python environment, shipped to the executors."),
]


def finite(seconds: float) -> float:
    """The same; ``nan`` passes a comparison with each limit, and not all releases of Typer refuse it.

    Raises:
        BadParameter: it has no end, or is no number.
    """
    if not math.isfinite(seconds):
        raise typer.BadParameter(f"{seconds} is not a number of seconds")
    return seconds


def one_flow(files: Sequence[Path], flow: str | None) -> tuple[FlowConfig, str]:
    """The flow that a command is about, and the name of its file.

    Raises:
        ConfigError: the configuration is wrong, or has several flows and none was chosen.
    """
    from sparkmirror import config

    loaded = config.load(files, flow=flow)
    if len(loaded.flows) != 1:
        reason = f"has several flows: {', '.join(str(each.name) for each in loaded.flows)}"
        raise ConfigError(file=loaded.file, key="", reason=reason, remedy="choose one with --flow")
    return loaded.flows[0], loaded.file


def spread_clusters(arguments: Sequence[str]) -> list[str]:
    """Gives each name after ``--clusters`` an option of its own.

    connect-mirror-maker.sh takes ``--clusters A B``, and so do we; the parser knows one value per option. The names end
    at the next option, or at a word that is a file, so ``--clusters A B mm2.properties`` means what it says.

    Args:
        arguments: a command line.

    Returns:
        The command line for the parser.
    """
    spread: list[str] = []
    taking = False
    for word in arguments:
        before = spread[-1] if spread else ""
        if taking and before != CLUSTERS and not word.startswith("-") and not Path(word).is_file():
            spread.append(CLUSTERS)
        elif before != CLUSTERS:
            taking = word == CLUSTERS
        spread.append(word)
    return spread
