"""``sparkmirror convert``: any configuration that is read here, as a commented mm2.properties.

The result gives the same flows. Secrets are not in it: references take their place, and comments say what to put where.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sparkmirror import config
from sparkmirror.cli.options import Files
from sparkmirror.cli.output import styled
from sparkmirror.config import Opened
from sparkmirror.errors import ConfigError

Output = Annotated[Path | None, typer.Option("--output", metavar="F", help="Write here; a file that is there stays.")]


def convert(
    files: Files,
    output: Output = None,
    secrets: Annotated[Path, typer.Option("--secrets", metavar="F", help="Where the result looks for secrets.")] = Path(
        config.SECRETS_FILE
    ),
) -> None:
    """Turn connector JSON, Strimzi YAML or properties into one commented mm2.properties with the same flows.

    Secrets are not written: references take their place, and comments say what to put where. Contacts no cluster.
    """
    show(config.open_files(files), ", ".join(map(str, files)), output, secrets)


def show(opened: list[Opened], file: str, output: Path | None, secrets: Path) -> None:
    """Writes the result to a file or to standard output.

    Args:
        opened: what to convert.
        file: all of it, as the user named it.
        output: where to; standard output by default.
        secrets: the file that the result looks for secrets in.

    Raises:
        ConfigError: the file is there already or cannot be written, or something cannot be converted.
    """
    told = _told(opened, file)
    text = config.as_properties(opened, file, told, secrets_file=str(secrets))
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        with output.open("x", encoding="latin-1") as written:
            written.write(text)
    except OSError as error:
        reason = (error.strerror or "cannot be written").lower()
        raise ConfigError(file=str(output), key="", reason=reason, remedy="name another file") from None
    said = styled(f"written: {output}; sparkmirror check {output} shows what holds")
    Console(stderr=True).print(said, soft_wrap=True)


def _told(opened: list[Opened], file: str) -> tuple[str, ...]:
    """The warnings, and why the flows would not run here: secrets may well be on another machine."""
    try:
        return config.settle(opened, file).warnings
    except ConfigError as error:
        known = dict.fromkeys(warning for one in opened for warning in one.warnings)
        return (*known, f"it would not run as it stands: {error}")
