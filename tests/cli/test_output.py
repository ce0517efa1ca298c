"""Names and errors of clusters on a terminal, and that commands let none of them past the escapes."""

from __future__ import annotations

import ast
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from sparkmirror.cli import output

CLI = Path(output.__file__).parent
NOT_ABOUT_CLUSTERS = {"acl_formats.py", "acls.py", "app.py", "convert.py", "demo.py", "lab.py", "output.py"}
"""Configuration as the user wrote it, the version, and clusters of this machine's own."""


def test_a_line_holds_no_markup_and_no_control_character(capsys: pytest.CaptureFixture[str]):
    console = Console(file=StringIO(), force_terminal=True, width=80)
    console.print(output.styled("[/x] \x1b[31mred\nnext", style="bold"))
    output.say("[/x] \x1b[31mred\nnext")
    assert r"[/x] \x1b[31mred\nnext" in console.file.getvalue()  # type: ignore[attr-defined]  # it is the StringIO above
    assert capsys.readouterr().out == "[/x] \\x1b[31mred\\nnext\n"


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(CLI.glob("*.py")) if path.name not in NOT_ABOUT_CLUSTERS],
    ids=lambda path: path.name,
)
def test_commands_print_what_is_escaped_alone(path: Path):
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    by_name = [(ast.unparse(call.func), call) for call in calls]
    assert [name for name, _ in by_name if name in ("Text", "json.dumps", "print")] == []
    shown = [ast.unparse(call.args[0]) for name, call in by_name if name == "typer.echo"]
    assert [text for text in shown if not text.startswith(("as_text(", "json_text("))] == []
    printed = [call.args[0] for name, call in by_name if name.endswith((".print", "add_row")) and call.args]
    assert [ast.unparse(each) for each in printed if isinstance(each, ast.JoinedStr)] == []
