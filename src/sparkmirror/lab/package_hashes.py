"""Writes ``hashes.txt``: the SHA-256 of every file that pip may take of the packages in ``constraints.txt``.

    python -m sparkmirror.lab.package_hashes      after a change of constraints.txt

pip compares what it downloads with them (``make setup``), whatever index the machine is set up for. They are asked of
that index by pip's own code, so that its address, certificates and proxies are those of the machine.

Invariant: one line for each package, in the order of ``constraints.txt``; of a release all files count that a Python of
`PYTHONS` may take, on any system, since pip chooses among them by machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from sparkmirror.errors import LabError

PYTHONS = ("311", "312", "313")
HEAD = (
    "# SHA-256 of the files of constraints.txt, with which pip compares what it downloads: written by\n"
    "# python -m sparkmirror.lab.package_hashes\n"
)
_PIN = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")
_WHEEL = re.compile(r"[^-]+-(?P<version>[^-]+)(?:-\d[^-]*)?-(?P<python>[^-]+)-(?P<abi>[^-]+)-[^-]+\.whl")


def pins(constraints: str) -> dict[str, str]:
    """The packages of a constraints file, with their versions."""
    return {found[1]: found[2] for line in constraints.splitlines() if (found := _PIN.fullmatch(line))}


def counts(file: str, name: str, version: str) -> bool:
    """Whether pip may take a file of an index for a version of a package."""
    if (wheel := _WHEEL.fullmatch(file)) is None:
        plain = re.sub(r"[-_.]+", "-", file).lower()
        return plain == re.sub(r"[-_.]+", "-", f"{name}-{version}.tar.gz").lower()
    pythons, abi = wheel["python"].split("."), wheel["abi"]
    here = {"py3", *(f"py{one}" for one in PYTHONS), *(f"cp{one}" for one in PYTHONS)}
    fits = bool(here.intersection(pythons)) or ("abi3" in abi.split(".") and pythons[0].startswith("cp3"))
    return wheel["version"] == version and fits and not re.search(r"\d+t$", abi)


def read_hashes(text: str) -> dict[str, tuple[str, ...]]:
    """What ``hashes.txt`` pins: the SHA-256 of each package's files, by ``name==version``."""
    pinned = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {words[0]: tuple(one.removeprefix("--hash=sha256:") for one in words[1:]) for words in pinned if words}


def lines(pinned: Mapping[str, str], files: Mapping[str, Mapping[str, str]]) -> str:
    """The text of ``hashes.txt``.

    Args:
        pinned: the packages, with their versions.
        files: of each, file names and SHA-256.

    Raises:
        LabError: the index has nothing of one.
    """
    text = [HEAD]
    for name, version in pinned.items():
        found = sorted(digest for file, digest in files[name].items() if counts(file, name, version))
        if not found:
            raise LabError(f"the index has no file of {name} {version} with a SHA-256")
        text.append(" ".join([f"{name}=={version}", *(f"--hash=sha256:{digest}" for digest in found)]) + "\n")
    return "".join(text)


def files_of(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """The files that pip's index has of packages, with their SHA-256.

    Raises:
        LabError: the index cannot be read.
    """
    from pip._internal.commands import create_command
    from pip._internal.index.collector import LinkCollector, parse_links
    from pip._internal.models.link import Link

    command = create_command("download")
    options, _ = command.parse_args([])
    with command.main_context(), command._build_session(options) as session:  # type: ignore[attr-defined]  # of that command's class
        collector = LinkCollector.create(session, options)
        found: dict[str, dict[str, str]] = {}
        for name in names:
            (address, *_) = collector.search_scope.get_index_urls_locations(name)
            page = collector.fetch_response(Link(address))
            if page is None:
                raise LabError(f"pip's index does not answer for {name}")
            found[name] = {
                link.filename: link._hashes["sha256"] for link in parse_links(page) if "sha256" in link._hashes
            }
    return found


def main() -> None:
    """Writes the file."""
    root = Path(__file__).parents[3]
    pinned = pins((root / "constraints.txt").read_text())
    (root / "hashes.txt").write_text(lines(pinned, files_of(pinned)))


if __name__ == "__main__":
    main()
