"""The pages name what the code knows, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from sparkmirror.cli import app
from sparkmirror.config import keys
from sparkmirror.config.keys import Key, Status

DOCS = Path(__file__).parents[1] / "docs"
CONFIGURATION = (DOCS / "configuration.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`([a-z][a-z0-9.-]*)(?:=[^`]*)?`", CONFIGURATION))
CLIENT_TABLES = {**keys.CONSUMER, **keys.PRODUCER, **keys.ADMIN}


def section(title: str) -> str:
    return CONFIGURATION.split(f"## {title}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize(
    "table",
    [keys.FLOW, CLIENT_TABLES],
    ids=["flow keys", "client keys"],
)
def test_every_active_key_is_explained(table: Mapping[str, Key]):
    assert {name for name, key in table.items() if key.status is Status.ACTIVE} - NAMED == set()


def test_every_flow_key_that_is_not_active_is_named_under_its_duty():
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section("Not active in this version"), flags=re.MULTILINE))
    later = {name: key.about for name, key in keys.FLOW.items() if key.status is Status.LATER}
    assert set(later.values()) <= set(rows)
    assert [f"{name}: {duty}" for name, duty in later.items() if name not in rows[duty]] == []


def here(key: Key) -> str:
    """What the page on compatibility says of a key."""
    words = {Status.ACTIVE: "supported", Status.LATER: "not yet", Status.NO_MEANING: "no meaning"}
    return words[key.status] + (f": {key.about}" if key.about else "")


def test_the_page_on_compatibility_has_every_key_with_what_becomes_of_it():
    page = (DOCS / "compatibility.md").read_text(encoding="utf-8")
    families = {f"{prefix}*": key for prefix, key in keys.PREFIXES.items()}
    clients = [keys.SECURITY, keys.CONSUMER, keys.PRODUCER, keys.ADMIN]
    known = {
        (name, here(key))
        for table in (keys.FLOW, keys.FILE, keys.WORKER, families, *clients)
        for name, key in table.items()
    }
    known |= {(old, f"`{new}`") for old, new in keys.OLD_NAMES.items()}
    rows = re.findall(r"^\| `([^`]+)` (?:\| [^|]*)?\| ([^|]+) \|$", page, flags=re.MULTILINE)
    assert set(rows) == known


def test_the_tables_of_active_keys_name_no_other_key():
    tables = section("Flow keys that are active") + section("Client keys that are active")
    first_cells = re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \|", tables, flags=re.MULTILINE)
    written = {name for cell in first_cells for name in re.findall(r"`([^`]+)`", cell)}
    known = {name for table in (keys.FLOW, keys.FILE, CLIENT_TABLES) for name in table}
    assert written - known == set()


def commands() -> dict[str, set[str]]:
    """The options of each command, as the page on operations lists them."""
    block = (DOCS / "operations.md").read_text(encoding="utf-8").split("## Commands\n\n")[1].split("\n\n")[0]
    listed: dict[str, set[str]] = {}
    name = ""
    for line in block.splitlines():
        if match := re.match(r"    sparkmirror ([\w-]+)", line):
            name = match[1]
            listed[name] = set()
        else:
            listed[name] |= set(re.findall(r"--[a-z.-]+", line))
    return listed


def test_every_command_is_listed_and_no_other():
    assert set(commands()) == {entry.name for entry in app.COMMANDS}


@pytest.mark.parametrize(
    "entry", [one for one in app.COMMANDS if one.name not in ("lab", "demo")], ids=lambda e: e.name
)
def test_the_options_of_a_command_are_those_on_the_page(entry: app.Entry):
    loaded = app.load(entry)
    params = [param for each in getattr(loaded, "commands", {"": loaded}).values() for param in each.params]
    real = {option for one in params for option in one.opts if option.startswith("--")}
    assert real - {"--help"} == commands()[entry.name]
