from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sparkmirror.errors import LabError
from sparkmirror.lab.jar_checksums import PINS, difference, found, pinned
from sparkmirror.lab.jars import (
    KAFKA_VERSION,
    OLDER_KAFKA_VERSION,
    OLDEST_KAFKA_VERSION,
    SETTINGS_VARIABLE,
    Coordinates,
    fetch,
)

SETTINGS = """<ivysettings>
  <settings defaultResolver="here"/>
  <resolvers>
    <filesystem name="here" m2compatible="true">
      <ivy pattern="{root}/[organisation]/[module]/[revision]/[module]-[revision].pom"/>
      <artifact pattern="{root}/[organisation]/[module]/[revision]/[artifact]-[revision].[ext]"/>
    </filesystem>
  </resolvers>
</ivysettings>
"""
POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>{name}</artifactId><version>1.0</version>
<dependencies>{dependencies}</dependencies></project>
"""
DEPENDENCY = (
    "<dependency><groupId>org.example</groupId><artifactId>{name}</artifactId><version>1.0</version></dependency>"
)

FETCH = (
    "from sparkmirror.lab.jars import *; print(fetch(Coordinates(name='x', modules=(('org.example', 'top', '1.0'),))))"
)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven repository on disk with ``top``, which needs ``bottom``, and a cache of its own."""
    root = tmp_path / "repository"
    for name, needs in (("top", "bottom"), ("bottom", "")):
        place = root / "org" / "example" / name / "1.0"
        place.mkdir(parents=True)
        dependencies = DEPENDENCY.format(name=needs) if needs else ""
        (place / f"{name}-1.0.pom").write_text(POM.format(name=name, dependencies=dependencies))
        with zipfile.ZipFile(place / f"{name}-1.0.jar", "w") as jar:
            jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
    settings = tmp_path / "settings.xml"
    settings.write_text(SETTINGS.format(root=root))
    monkeypatch.setenv(SETTINGS_VARIABLE, str(settings))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("sparkmirror.lab.jars.time.sleep", lambda _: None)  # the pauses between attempts
    return root


def coordinates(module: str = "top", revision: str = "1.0") -> Coordinates:
    return Coordinates(name="x", modules=(("org.example", module, revision),))


def test_jars_come_with_what_they_depend_on(repository: Path) -> None:
    directory = fetch(coordinates())
    assert {jar.name for jar in directory.iterdir()} == {"top-1.0.jar", "bottom-1.0.jar"}


def test_one_sees_that_jars_are_fetched(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sparkmirror.lab.jars.TELL_SECONDS", 0.01)
    fetch(coordinates())
    first, *progress, unchecked = capsys.readouterr().err.splitlines()
    assert first == "fetching x, once for this user"
    assert unchecked == "no checksums of x are pinned: what was fetched is not checked"
    assert progress
    assert all(re.fullmatch(r"  \d+ MB after \d+ s", line) for line in progress)
    fetch(coordinates())
    assert capsys.readouterr().err == ""


def test_what_was_fetched_is_not_fetched_again(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = fetch(coordinates())
    monkeypatch.setenv(SETTINGS_VARIABLE, "/nowhere")
    assert fetch(coordinates()) == directory


def test_another_recipe_goes_to_another_directory() -> None:
    assert coordinates("top").directory() != coordinates("bottom").directory()


def test_a_module_that_does_not_exist_is_named_at_once(repository: Path) -> None:
    with pytest.raises(LabError, match=r"module not found: org.example#absent;1.0.*name a version"):
        fetch(coordinates("absent"))


def test_a_failure_leaves_nothing_that_looks_complete(repository: Path) -> None:
    (repository / "org" / "example" / "bottom" / "1.0" / "bottom-1.0.jar").unlink()
    with pytest.raises(LabError, match=r"could not be fetched in 3 attempts.*HTTPS_PROXY"):
        fetch(coordinates())
    assert not coordinates().directory().exists()


def test_what_is_not_as_it_was_released_is_not_used(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = found(repository / "org" / "example" / "top" / "1.0") | found(
        repository / "org" / "example" / "bottom" / "1.0"
    )
    pins = {name: digest for name, digest in released.items() if name.endswith(".jar")}
    monkeypatch.setattr("sparkmirror.lab.jars.pinned", lambda _: pins | {"bottom-1.0.jar": 64 * "0"})
    with pytest.raises(LabError, match=r"SHA-256: bottom-1\.0\.jar has [0-9a-f]{64} instead of 0{64}\. It is not used"):
        fetch(coordinates())
    assert [path.name for path in coordinates().directory().parent.glob("*x-*")] == []
    monkeypatch.setattr("sparkmirror.lab.jars.pinned", lambda _: pins)
    assert fetch(coordinates()).is_dir()


def test_jars_that_are_missing_or_more_than_pinned_are_a_difference() -> None:
    assert difference({"a.jar": "1", "b.jar": "2"}, {"a.jar": "1", "b.jar": "2"}) == ""
    assert difference({"a.jar": "1"}, {"c.jar": "1"}) == "a.jar is missing; c.jar is not pinned"


@pytest.mark.parametrize("version", [KAFKA_VERSION, OLDER_KAFKA_VERSION, OLDEST_KAFKA_VERSION])
def test_what_the_laboratory_fetches_is_pinned(version: str) -> None:
    pins = pinned(f"kafka-{version}")
    assert f"kafka_2.13-{version}.jar" in pins
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in pins.values())
    assert f"connect-mirror-{KAFKA_VERSION}.jar" in pinned(f"mirror-maker-{KAFKA_VERSION}")


def pins() -> list[tuple[str, str, str]]:
    """Set, jar and checksum of each line."""
    lines = [line.split() for line in PINS.read_text(encoding="ascii").splitlines() if not line.startswith("#")]
    return [(place.partition("/")[0], place.partition("/")[2], digest) for digest, place in lines]


def test_nothing_is_pinned_that_the_laboratory_does_not_fetch() -> None:
    versions = (KAFKA_VERSION, OLDER_KAFKA_VERSION, OLDEST_KAFKA_VERSION)
    assert {name for name, _, _ in pins()} == {
        *(f"kafka-{version}" for version in versions),
        f"mirror-maker-{KAFKA_VERSION}",
    }


def test_a_jar_of_several_sets_has_one_checksum() -> None:
    by_jar: dict[str, set[str]] = {}
    for _, jar, digest in pins():
        by_jar.setdefault(jar, set()).add(digest)
    assert [jar for jar, digests in by_jar.items() if len(digests) > 1] == []


def test_two_processes_fetch_once(repository: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", FETCH], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = [process.communicate(timeout=120) for process in processes]
    directory = coordinates().directory()
    assert [output.strip() for output, _ in answers] == [str(directory)] * 2, answers
    assert len(list(directory.iterdir())) == 2
