"""The exit codes of every command; operators and scripts depend on them."""

from __future__ import annotations

from enum import IntEnum

from sparkmirror.errors import ConfigError, SparkmirrorError


class ExitCode(IntEnum):
    """What a command's end means.

    A wrong command line is a wrong configuration: the same person mends it.
    """

    DONE = 0
    FAILED = 1
    CONFIG_WRONG = 2


def exit_code(error: SparkmirrorError) -> ExitCode:
    """The code that tells scripts about an error."""
    return ExitCode.CONFIG_WRONG if isinstance(error, ConfigError) else ExitCode.FAILED
