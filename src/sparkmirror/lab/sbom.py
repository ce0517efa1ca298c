"""``make sbom``: what is installed here and what the laboratory fetches, as a bill of materials in CycloneDX's JSON.

Python packages come from the environment that runs this, with the licences that they state; PySpark's jars lie in its
wheel and are listed with their SHA-256; those of the laboratory are the pinned ones. A package is no one file: its
SHA-256 are those of the files of that version from which it may have been installed, as ``hashes.txt`` pins them, each
as a reference to a distribution. What a run needs is ``required``,
what only tests, laboratory and benchmarks need ``optional``.

Reference: https://cyclonedx.org/docs/1.5/json/, the package URLs of https://github.com/package-url/purl-spec
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from sparkmirror.lab.jar_checksums import PINS, found
from sparkmirror.lab.package_hashes import read_hashes
from sparkmirror.spark.java import spark_home

OURS = "sparkmirror"
LICENCE = "License :: OSI Approved :: "
HASHES = Path(__file__).parents[3] / "hashes.txt"
"""Of a checkout, from which ``make sbom`` runs."""

LONGEST = 60
"""Characters of a licence's name; some packages put its whole text into the field."""


def normal(requirement: str) -> str:
    """The name of a package, as indexes compare it, from a requirement."""
    return re.sub(r"[-_.]+", "-", re.split(r"[ ;<>=!~\[(]", requirement)[0]).lower()


def needed(requirements: Mapping[str, Iterable[str]], root: str = OURS) -> frozenset[str]:
    """The packages that one needs without extras, directly or not, itself included.

    Args:
        requirements: of each package by its name, as its metadata states them.
        root: which one.
    """
    reached: set[str] = set()
    waiting = [root]
    while waiting:
        name = waiting.pop()
        if name in reached or name not in requirements:
            continue
        reached.add(name)
        waiting += [normal(one) for one in requirements[name] if "extra ==" not in one]
    return frozenset(reached)


def licences(expression: str, classifiers: Iterable[str], text: str) -> list[dict[str, Any]]:
    """What a package's metadata say of its licence, the most exact first; empty where they say nothing."""
    if expression:
        return [{"expression": expression}]
    names = [one.removeprefix(LICENCE) for one in classifiers if one.startswith(LICENCE)]
    line = text.strip().partition("\n")[0].strip()
    names = names or ([line] if 0 < len(line) <= LONGEST else [])
    return [{"license": {"name": name}} for name in names]


def bill(
    installed: Iterable[Distribution],
    jars: Mapping[str, str],
    fetched: Mapping[str, str],
    pinned: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """The bill of materials.

    Args:
        installed: Python packages.
        jars: SHA-256 of PySpark's jars, by file name.
        fetched: that of the jars that the laboratory fetches, by set and file name.
        pinned: those of the files of packages, by ``name==version``.
    """
    digests = {normal(name) + name.partition("==")[2]: found for name, found in pinned.items()}
    packages = {normal(one.name): one for one in installed}
    required = needed({name: one.requires or () for name, one in packages.items()})
    components = [
        _package(name, packages[name], name in required)
        | _files(name, packages[name].version, digests.get(name + packages[name].version, ()))
        for name in sorted(packages)
        if name != OURS
    ]
    components += [_jar(name, digest, "required", "pyspark") for name, digest in sorted(jars.items())]
    components += [
        _jar(Path(place).name, digest, "optional", str(Path(place).parent)) for place, digest in sorted(fetched.items())
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": _package(OURS, packages[OURS], required=True) | {"type": "application"}},
        "components": components,
    }


def _package(name: str, package: Distribution, required: bool) -> dict[str, Any]:
    stated = package.metadata
    return {
        "type": "library",
        "bom-ref": f"pkg:pypi/{name}@{package.version}",
        "name": package.name,
        "version": package.version,
        "scope": "required" if required else "optional",
        "licenses": licences(
            stated.get("License-Expression") or "", stated.get_all("Classifier") or (), stated.get("License") or ""
        ),
        "purl": f"pkg:pypi/{name}@{package.version}",
    }


def _files(name: str, version: str, digests: Sequence[str]) -> dict[str, Any]:
    """The files from which a package may have been installed; nothing where none are pinned."""
    place = f"pkg:pypi/{name}@{version}"
    found = [
        {"type": "distribution", "url": place, "hashes": [{"alg": "SHA-256", "content": digest}]} for digest in digests
    ]
    return {"externalReferences": found} if found else {}


def _jar(name: str, digest: str, scope: str, of: str) -> dict[str, Any]:
    stem, version = _split(Path(name).name)
    return {
        "type": "library",
        "bom-ref": f"{of}/{name}",
        "group": of,
        "name": stem,
        "version": version,
        "scope": scope,
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }


def _split(name: str) -> tuple[str, str]:
    """Artifact and version of a jar by its file name: the version begins at the first hyphen before a digit."""
    parts = re.fullmatch(r"(.+?)-(\d.*)\.jar", name)
    return (parts[1], parts[2]) if parts else (name.removesuffix(".jar"), "")


def _pins() -> Iterator[tuple[str, str]]:
    for line in PINS.read_text(encoding="ascii").splitlines():
        if not line.startswith("#"):
            digest, place = line.split()
            yield place, digest


def main(path: Path) -> None:
    """Writes the bill of this environment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pinned = read_hashes(HASHES.read_text(encoding="ascii")) if HASHES.exists() else {}
    whole = bill(distributions(), found(spark_home() / "jars"), dict(_pins()), pinned)
    path.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
    sys.stderr.write(f"{path}: {len(whole['components'])} components\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
