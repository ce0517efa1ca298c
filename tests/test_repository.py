"""The repository keeps its own rules, those that no linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.lab import package_hashes

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "sparkmirror"
ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
FUNCTION_LINES = 60
NAMED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
HOUSELESS = {"utils", "util", "common", "helpers", "helper", "manager", "base", "misc"}


def tracked(pattern: str = "*") -> list[Path]:
    """Files that git knows, or would if they were added: what is ignored does not count."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", pattern]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=30).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


PYTHON_FILES = tracked("*.py")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def places(path: Path, pattern: re.Pattern[str]) -> Iterator[str]:
    for number, line in enumerate(text_of(path).splitlines(), start=1):
        if pattern.search(line):
            yield f"{name_of(path)}:{number}: {line.strip()}"


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def project() -> Any:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", tracked("*__init__.py"), ids=name_of)
def test_an_init_file_holds_nothing_but_re_exports(path: Path):
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_list_of_names = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        assert is_docstring or is_list_of_names or isinstance(node, ast.ImportFrom), ast.unparse(node)


def test_no_function_is_longer_than_a_screen():
    def lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
        documented = ast.get_docstring(node) is not None
        first = node.body[1 if documented and len(node.body) > 1 else 0]
        return (node.end_lineno or 0) - first.lineno + 1

    long = [
        f"{name_of(path)}:{node.lineno} {node.name}: {lines(node)} lines"
        for path in PYTHON_FILES
        for node in functions(path)
        if lines(node) >= FUNCTION_LINES
    ]
    assert long == []


def test_no_module_has_a_name_that_says_nothing():
    assert [name_of(path) for path in PYTHON_FILES if path.stem in HOUSELESS or path.parent.name in HOUSELESS] == []


def test_no_file_names_a_place_on_somebody_s_machine():
    homes = "home/[a-z]|root|Users|work"
    pattern = re.compile(rf"(?<![\w.~/$}}*-])/(?:{homes})/")
    assert [place for path in tracked() if path != Path(__file__) for place in places(path, pattern)] == []


def test_no_file_holds_the_address_of_a_package_registry():
    pattern = re.compile(r"https?://[^\s\"']*(?:/simple\b|/packages/|/maven2|/crates/|\.(?:tgz|whl|jar)\b)")
    assert [place for path in tracked() if path != Path(__file__) for place in places(path, pattern)] == []


def test_every_exception_from_a_rule_says_why():
    bare = re.compile(r"#\s*(?:noqa(?!:)|type:\s*ignore(?!\[))")
    unexplained = re.compile(r"#\s*(?:noqa:\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*|type:\s*ignore\[[^\]]+\])(?!\W*\w+\W+\w+)")
    for pattern in (bare, unexplained):
        assert [place for path in PYTHON_FILES if path != Path(__file__) for place in places(path, pattern)] == []


def test_every_dependency_is_pinned_by_name_and_version_alone():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)] == []

    def normal(name: str) -> str:
        return re.sub(r"[-_.]+", "-", re.split(r"[<>=~!\[ ]", name)[0]).lower()

    wanted = project()["project"]
    asked = [*wanted["dependencies"], *(one for extra in wanted["optional-dependencies"].values() for one in extra)]
    assert {normal(one) for one in asked} - {normal(pin) for pin in pins} == set()


def test_a_version_that_stands_in_two_places_is_the_same_in_both():
    wanted, pinned = project()["project"], (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    asked = [*wanted["dependencies"], *(one for extra in wanted["optional-dependencies"].values() for one in extra)]
    exact = [one for one in (*asked, *project()["build-system"]["requires"]) if "==" in one]
    assert exact, "the wheel of Java, for an installation without constraints.txt"
    assert [one for one in exact if one not in pinned] == []


def test_every_pinned_package_is_used():
    def normal(name: str) -> str:
        return re.sub(r"[-_.]+", "-", re.split(r"[ ;<>=~!\[(]", name)[0]).lower()

    wanted = project()["project"]
    asked = {
        normal(one)
        for one in [
            *wanted["dependencies"],
            *(one for some in wanted["optional-dependencies"].values() for one in some),
        ]
    }
    with_extras = {normal(one) for one in wanted["optional-dependencies"]["dev"] if "[" in one}
    required = {
        normal(one)
        for package in distributions()
        for one in package.requires or ()
        if "extra ==" not in one or normal(package.name) in with_extras
    }
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {normal(line) for line in lines if not line.startswith("#")}
    of_gssapi = {"decorator", "cython"}  # which is not installed everywhere
    builds = {normal(one) for one in project()["build-system"]["requires"]}
    assert pins - asked - required - of_gssapi - builds == set()


def test_each_pinned_package_has_hashes_and_no_address():
    pinned = package_hashes.pins((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    rows = [line for line in (ROOT / "hashes.txt").read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    assert [row for row in rows if not re.fullmatch(r"[\w.-]+==[\w.]+( --hash=sha256:[0-9a-f]{64})+", row)] == []
    assert [row.split()[0] for row in rows] == [f"{name}=={version}" for name, version in pinned.items()]


def test_rooms_may_import_the_libraries_of_other_rooms_in_no_contract():
    contracts = {one["id"]: one for one in project()["tool"]["importlinter"]["contracts"]}
    modules = {f"sparkmirror.{room}" for room in ROOMS} | {"sparkmirror.model", "sparkmirror.errors"}
    assert set(contracts["kafka-python"]["source_modules"]) == modules - {"sparkmirror.kafka"}
    assert set(contracts["pyspark"]["source_modules"]) == modules - {"sparkmirror.spark"}


def test_tests_mirror_the_tree():
    rooms = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms - set(ROOMS) - {"bench"} == set()


@pytest.mark.parametrize("path", tracked("*.md"), ids=name_of)
def test_links_between_pages_lead_somewhere(path: Path):
    targets = re.findall(r"\]\(([^)\s]+)\)", text_of(path))
    local = [target.split("#")[0] for target in targets if not re.match(r"[a-z]+:|#", target)]
    assert [target for target in local if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", tracked("*.md"), ids=name_of)
def test_files_that_pages_name_exist(path: Path):
    """Paths from the root wherever they stand, and modules between backticks with as much of a path as is told."""
    text = text_of(path)
    paths = re.findall(r"(?<![\w/.-])(?:bench|docs|src|tests)/[\w./-]*\w", text)
    modules = re.findall(r"`((?:\w+/)*\w+\.py)`", text)
    known = [f"/{name_of(file)}" for file in PYTHON_FILES]
    missing = [module for module in modules if not any(name.endswith(f"/{module}") for name in known)]
    assert [name for name in paths if not (ROOT / name).exists()] + missing == []


@pytest.mark.parametrize("path", tracked("DESIGN.md"), ids=name_of)
def test_files_and_functions_that_the_design_names_exist(path: Path):
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)(?::([A-Za-z_][\w.]*))?`", text_of(path)))
    missing = [f"{file}:{name}" for file, name in named if not defines(PACKAGE / file, name)]
    assert missing == []


def defines(path: Path, name: str) -> bool:
    """Whether a module has a function or class of that name, or a class with that method (``Class.method``)."""
    if not path.is_file():
        return False
    body: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    for part in name.split(".") if name else ():
        found = [node for node in body if isinstance(node, NAMED) and node.name == part]
        if not found:
            return False
        body = found[0].body
    return True


def test_the_verbs_are_there():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    verbs = re.findall(r"^([a-z]+):.*## ", makefile, flags=re.MULTILINE)
    assert set(verbs) >= {"setup", "demo", "test", "check", "bench", "clean", "help"}
