"""The shell around the commands: what is imported when, what an error looks like, which code a command ends with."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
from types import ModuleType
from typing import Annotated

import pytest
import typer

from sparkmirror.cli import app
from sparkmirror.errors import BrokerError, ConfigError, LinkError, SparkmirrorError

HEAVY = ("pyspark", "numba", "kafka", "pyarrow", "pandas", "numpy")


def ended_with(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        app.main(arguments)
    code = ended.value.code
    assert isinstance(code, int)
    return code


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch):
    """Puts a function in the place of ``sparkmirror try``."""

    def put(function: object) -> None:
        module = ModuleType("a_command")
        module.run = function  # type: ignore[attr-defined]  # made here
        monkeypatch.setitem(sys.modules, "a_command", module)
        monkeypatch.setattr(app, "COMMANDS", (app.Entry(name="try", place="a_command:run", summary="Tries."),))

    return put


def raising(error: SparkmirrorError):
    def run() -> None:
        raise error

    return run


def test_help_takes_less_than_half_a_second_of_work_and_imports_nothing_heavy():
    code = (
        "import sys, sparkmirror.cli.app as app\n"
        "try: app.main(['--help'])\n"
        f"finally: sys.exit(','.join(set(sys.modules) & set({HEAVY!r})))"
    )
    times = []
    for _ in range(3):
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime)
    assert done.stderr.strip() == ""
    assert "status" in done.stdout
    assert min(times) < 0.5


@pytest.mark.parametrize("entry", app.COMMANDS, ids=lambda entry: entry.name)
def test_every_command_can_be_loaded_and_has_a_help_page(entry: app.Entry, capsys: pytest.CaptureFixture[str]):
    assert ended_with(entry.name, "--help") == 0
    page = capsys.readouterr().out
    assert f"sparkmirror {entry.name}" in page
    assert "Args:" not in page
    assert "Raises:" not in page


def test_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]):
    assert ended_with("--version") == 0
    assert capsys.readouterr().out.split()[0] == "sparkmirror"


def test_a_command_that_returns_ends_with_0(command):
    command(lambda: None)
    assert ended_with("try") == 0


def test_a_command_says_its_exit_code_itself(command):
    def run() -> None:
        raise typer.Exit(1)

    command(run)
    assert ended_with("try") == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError(file="mm2.properties", key="tasks.max", reason="0 is not a number of lanes"), 2),
        (BrokerError(code=29, name="TOPIC_AUTHORIZATION_FAILED", cluster="A", topic="t"), 1),
        (LinkError(cluster="A", address="a:9092", reason="closed", hint="is TLS missing?"), 1),
    ],
)
def test_an_error_is_one_line_on_standard_error(command, capsys: pytest.CaptureFixture[str], error, code):
    command(raising(error))
    assert ended_with("try") == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == f"sparkmirror: {error}\n"


def test_brackets_in_an_error_are_text_and_not_markup(command, capsys: pytest.CaptureFixture[str]):
    command(raising(ConfigError(file="f", key="topics", reason="[a-z is not a regular expression [/]")))
    assert ended_with("try") == 2
    assert capsys.readouterr().err == "sparkmirror: f: topics: [a-z is not a regular expression [/]\n"


def test_an_error_of_several_lines_becomes_one(command, capsys: pytest.CaptureFixture[str]):
    command(raising(ConfigError(file="f", key="k", reason="first\n  second")))
    ended_with("try")
    assert capsys.readouterr().err == "sparkmirror: f: k: first second\n"


def test_debug_adds_the_traceback(command, capsys: pytest.CaptureFixture[str]):
    command(raising(ConfigError(file="f", key="k", reason="wrong")))
    assert ended_with("--debug", "try") == 2
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert shown.endswith("sparkmirror: f: k: wrong\n")


def test_a_defect_keeps_its_traceback(command):
    def run() -> None:
        raise KeyError("a defect")

    command(run)
    with pytest.raises(KeyError):
        app.main(["try"])


def test_ctrl_c_ends_with_130(command):
    def run() -> None:
        raise KeyboardInterrupt

    command(run)
    assert ended_with("try") == 130


def test_an_unknown_command_or_option_ends_with_2(command):
    command(lambda: None)
    assert ended_with("tri") == 2
    assert ended_with("try", "--nonsense") == 2


def test_a_command_of_its_own_commands_is_mounted(command, capsys: pytest.CaptureFixture[str]):
    sub = typer.Typer()

    @sub.command()
    def up(name: Annotated[str, typer.Option()] = "a") -> None:
        typer.echo(f"up {name}")

    @sub.command()
    def down() -> None:
        typer.echo("down")

    command(sub)
    assert ended_with("try", "up", "--name", "b") == 0
    assert capsys.readouterr().out == "up b\n"


def test_sections_for_readers_of_the_code_are_not_in_the_help(command, capsys: pytest.CaptureFixture[str]):
    def run() -> None:
        """Does it.

        More about it.

        Raises:
            ConfigError: never.
        """

    command(run)
    ended_with("try", "--help")
    page = capsys.readouterr().out
    assert "More about it." in page
    assert "ConfigError" not in page


def test_a_warning_of_a_command_without_a_log_is_one_line_without_control_characters():
    code = (
        "import logging, sparkmirror.cli.app as app\n"
        "try: app.main(['--version'])\n"
        "finally: logging.getLogger('sparkmirror.flow').warning('group %s', 'x\\n\\x1b[31m')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == "group x\\n\\x1b[31m\n"


def test_the_traceback_of_a_defect_has_no_control_characters():
    code = (
        "import sys, sparkmirror.cli.app as app\n"
        "def group(): raise ValueError('x\\x1b[31m')\n"
        "app.group, sys.argv = group, ['sparkmirror']\n"
        "app.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):\n  File ")
    assert done.stderr.endswith("\nValueError: x\\x1b[31m\n")


def test_garbage_is_looked_for_seldom_since_what_a_command_makes_is_kept(command):
    before, seen = gc.get_threshold(), []
    command(lambda: seen.append(gc.get_threshold()[0]))
    try:
        assert ended_with("try") == 0
    finally:
        gc.set_threshold(*before)
    assert seen == [app.YOUNG_OBJECTS]
