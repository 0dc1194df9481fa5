"""The command line: keys before anything serves, and sentences instead of tracebacks."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.cli import cli


@pytest.fixture(autouse=True)
def _own_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.upper().startswith("HELIOGRAPH_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_the_first_key_is_made_before_anything_serves() -> None:
    assert run("keys", "list").stdout == ""
    made = run("keys", "create", "--scope", "admin", "--label", "me")
    assert made.exit_code == 0
    secret = made.stdout.strip()
    assert secret.startswith("hg_")
    assert secret not in made.stderr
    listed = run("keys", "list").stdout
    assert secret.split("_")[1] in listed
    assert "admin" in listed
    assert "all workspaces  me" in listed
    assert secret not in listed
    assert hashlib.sha256(secret.encode()).hexdigest() not in listed


def test_a_key_may_be_bound_to_workspaces_and_revoked() -> None:
    run("keys", "create", "--scope", "admin")
    made = run(
        "keys", "create", "--scope", "write", "--workspace", "a", "--workspace", "b"
    ).stdout  # fmt: skip
    key_id = made.split("_")[1]
    [line] = [line for line in run("keys", "list").stdout.splitlines() if key_id in line]
    assert "a,b" in line
    assert run("keys", "revoke", key_id).exit_code == 0
    assert key_id not in run("keys", "list").stdout


def test_revoking_the_last_key_says_what_that_means() -> None:
    secret = run("keys", "create", "--scope", "admin").stdout
    assert "open again" in run("keys", "revoke", secret.split("_")[1]).stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("keys", "create"), "--scope admin"),
        (("keys", "create", "--scope", "admin", "--workspace", "a"), "--scope admin"),
        (("keys", "create", "--scope", "admin", "--workspace", "a/b"), "a/b"),
        (("keys", "revoke", "nope"), "nope"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(arguments: tuple[str, ...], words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 1
    assert words in result.stderr
    assert result.stderr.startswith("heliograph: ")
    assert "Traceback" not in result.output


def test_wrong_settings_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIOGRAPH_GRAPH_ULR", "neo4j://x")
    result = run("keys", "list")
    assert result.exit_code == 1
    assert "did you mean HELIOGRAPH_GRAPH_URL?" in result.stderr


def test_migrate_says_when_there_is_nothing_to_do() -> None:
    assert run("migrate").exit_code == 0
    assert "up to date" in run("migrate").stdout
