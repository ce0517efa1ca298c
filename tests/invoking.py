"""Commands in this process, as a shell would run them: a process of its own pays two seconds for its imports."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess

from sparkmirror.cli.app import main


def sparkmirror(*words: object) -> CompletedProcess[str]:
    """Runs a command that ends by itself, other than ``run``, which changes its process: logging, signals.

    Args:
        words: of its command line.

    Returns:
        its exit code and what it wrote.
    """
    line = [str(word) for word in words]
    out, err = io.StringIO(), io.StringIO()
    code: int | str | None = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main(line)
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int), code
    return CompletedProcess(line, int(code), out.getvalue(), err.getvalue())
