"""The command ``mirror-maker``: the options of kafka-mirror-maker.sh as people wrote them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from sparkmirror.cli.app import main

FILES = Path(__file__).parents[1] / "config" / "files" / "mm1"
NEEDED = ("--consumer.config", "consumer.properties", "--producer.config", "producer.properties")


@pytest.fixture
def ended(capsys, monkeypatch):
    """Runs the command with ``--convert`` where its files are; gives exit code, standard output and standard error."""
    monkeypatch.chdir(FILES)

    def ended(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["mirror-maker", *arguments, "--convert"])
        captured = capsys.readouterr()
        return end.value.code, captured.out, captured.err

    return ended


def test_a_command_as_people_have_it_is_taken_word_for_word(ended):
    script, *words = shlex.split((FILES / "command.sh").read_text().replace("\\\n", ""))
    assert script == "kafka-mirror-maker.sh"
    code, out, _ = ended(*words)
    assert code == 0
    assert "source->target.topics = orders,shop.*\n" in out
    assert "source->target.tasks.max = 3\n" in out
    assert "source->target.source.consumer.auto.offset.reset = latest\n" in out
    assert "--offset.commit.interval.ms" in out
    assert "--abort.on.send.failure=false drops no record here" in out
    assert "canary" not in out


def test_several_consumers_are_several_sources(ended):
    code, out, _ = ended(*NEEDED, "--consumer.config", "consumer.properties", "--include", "a")
    assert code == 0
    assert "source1->target.topics = a" in out
    assert "source2->target.topics = a" in out


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "command line: --include: is not set"),
        (("--include", "a", "--message.handler", "com.example.H"), "--message.handler: Java code that changes records"),
        (("--include", "a", "--message.handler.args", "x"), "--message.handler: Java code that changes records"),
        (("--include", "a", "--consumer.rebalance.listener", "L"), "--consumer.rebalance.listener: there is no"),
        (
            ("--include", "a", "--abort.on.send.failure", "maybe"),
            "--abort.on.send.failure: 'maybe' is neither true nor",
        ),
        (("--include", "a", "--num.streams", "0"), "num.streams"),
    ],
)
def test_what_cannot_be_done_ends_with_2_and_says_which_option(ended, options, reason):
    code, out, err = ended(*NEEDED, *options)
    assert (code, out) == (2, "")
    assert reason in err


def test_options_without_an_effect_are_taken(ended):
    assert ended(*NEEDED, "--include", "a", "--new.consumer", "--abort.on.send.failure", "TRUE")[0] == 0
