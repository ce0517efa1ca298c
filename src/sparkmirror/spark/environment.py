"""Packs the Python environment that runs this, for executors that have none.

``python -m sparkmirror.spark.environment FILE`` writes an archive with this package and what it needs, which may lie
anywhere; ``sparkmirror run --archive FILE`` ships it. PySpark is left out, since executors have that of their Spark.
Python itself is not in it: executors need one of the same version at the same path.

What was rejected: a virtual environment, whose link to its Python leads out of the archive, which Spark refuses to
unpack (``org.apache.hadoop.fs.FileUtil``); and venv-pack, which refuses editable installations and would take the jars
of PySpark along (400 MB).
"""

from __future__ import annotations

import gzip
import importlib.metadata
import io
import re
import shlex
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import sparkmirror

_OF_SPARK = frozenset({"pyspark", "py4j"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SITE = Path("lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")

_PYTHON = """#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd)
PYTHONPATH="$here/{site}${{PYTHONPATH:+:$PYTHONPATH}}" exec {python} "$@"
"""


def pack(target: Path) -> None:
    """Writes the archive, compressed: one that is not, Spark unpacks without the right to run anything in it.

    Args:
        target: ``….tar.gz`` or ``….tgz``.
    """
    python = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]  # what a virtual environment links to
    with (
        gzip.open(target, "wb", compresslevel=3) as stream,
        tarfile.open(fileobj=stream, mode="w", dereference=True) as archive,
    ):
        script = _PYTHON.format(site=_SITE, python=shlex.quote(str(python))).encode()
        entry = tarfile.TarInfo("bin/python")
        entry.size, entry.mode = len(script), 0o755
        archive.addfile(entry, io.BytesIO(script))
        for file, name in _files():
            archive.add(file, str(_SITE / name), recursive=False)


def _files() -> Iterator[tuple[Path, Path]]:
    """Every file and its place in site-packages."""
    package = Path(sparkmirror.__path__[0])
    for file in sorted(package.rglob("*")):
        if file.is_file() and file.parent.name != "__pycache__":
            yield file, Path("sparkmirror", file.relative_to(package))
    for distribution in _needed("sparkmirror"):
        for entry in distribution.files or ():
            inside = ".." not in entry.parts and not entry.name.startswith("__editable__")
            file = Path(str(distribution.locate_file(entry)))
            if inside and entry.parts[0] != "sparkmirror" and file.is_file():
                yield file, Path(entry)


def _needed(root: str) -> list[importlib.metadata.Distribution]:
    """A distribution and all that it needs, extras left out; what is not installed here is not needed here."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = [root]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found or name in _OF_SPARK:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        requires = found[name].requires or ()
        waiting += [match.group() for text in requires if "extra ==" not in text and (match := _NAME.match(text))]
    return [found[name] for name in sorted(found)]


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].endswith((".tar.gz", ".tgz")):
        sys.exit("usage: python -m sparkmirror.spark.environment environment.tar.gz")
    pack(Path(sys.argv[1]))
