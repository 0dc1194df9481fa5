"""Settings: what stops the start, and that `.env.example` tells the truth."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.domain import Options
from app.errors import Misconfigured
from app.settings import PREFIX, OptionSettings, Settings, load, local_path

EXAMPLE = Path(__file__).parents[2] / ".env.example"
IN_DATA_DIR = {"graph_url", "vector_url", "blob_url"}


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import os

    for name in list(os.environ):
        if name.upper().startswith(PREFIX):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def refusal(monkeypatch: pytest.MonkeyPatch, **values: str) -> str:
    for name, value in values.items():
        monkeypatch.setenv(PREFIX + name, value)
    with pytest.raises(Misconfigured) as caught:
        load()
    return caught.value.detail


def test_all_defaults_are_the_embedded_service(tmp_path: Path) -> None:
    settings = load()
    assert settings.host == "127.0.0.1"
    assert settings.llm_url == settings.embed_url == "offline://"
    assert settings.queue_url == "embedded://"
    assert local_path(settings.graph_url) == tmp_path / "data" / "graph.db"
    assert local_path(settings.vector_url) == tmp_path / "data" / "vectors"
    assert local_path(settings.blob_url) == tmp_path / "data" / "blobs"
    assert settings.options == Options()


def test_the_stores_follow_the_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HELIOGRAPH_DATA_DIR", str(tmp_path / "elsewhere"))
    assert local_path(load().graph_url) == tmp_path / "elsewhere" / "graph.db"


def test_an_empty_value_counts_as_unset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HELIOGRAPH_PORT", "")
    (tmp_path / ".env").write_text("HELIOGRAPH_GRAPH_URL=\nHELIOGRAPH_EMBED_DIMENSION=\n")
    settings = load()
    assert settings.port == 8080
    assert settings.graph_url.startswith("sqlite://")
    assert settings.embed_dimension is None


def test_the_environment_wins_over_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("HELIOGRAPH_PORT=1111\nHELIOGRAPH_HOST=localhost\nOTHER=1\n")
    monkeypatch.setenv("HELIOGRAPH_PORT", "2222")
    settings = load()
    assert (settings.port, settings.host) == (2222, "localhost")


def test_an_unknown_variable_is_named_with_its_nearest_neighbour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = refusal(monkeypatch, LLM_MODL="x", OPTIONS__CHUNK_TOKEN="5")
    assert "HELIOGRAPH_LLM_MODL" in said
    assert "did you mean HELIOGRAPH_LLM_MODEL?" in said
    assert "did you mean HELIOGRAPH_OPTIONS__CHUNK_TOKENS?" in said


def test_an_unknown_name_in_the_file_is_named_with_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("HELIOGRAPH_PROT=1\n")
    said = refusal(monkeypatch)
    assert "HELIOGRAPH_PROT (.env)" in said
    assert "did you mean HELIOGRAPH_PORT?" in said


def test_names_that_only_tests_read_are_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIOGRAPH_TEST_QDRANT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("HELIOGRAPH_SHARED", "../shared")
    assert load().port == 8080


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"LLM_URL": "openai+http://x/v1"}, ["LLM_URL", "LLM_MODEL"]),
        ({"LLM_MODEL": "m"}, ["LLM_MODEL", "LLM_URL"]),
        ({"ANSWER_MODEL": "m"}, ["ANSWER_MODEL", "LLM_URL"]),
        ({"LLM_KEY": "s3cr3t"}, ["LLM_KEY", "LLM_URL"]),
        ({"EMBED_URL": "ollama+http://x:1"}, ["EMBED_URL", "EMBED_MODEL"]),
        ({"EMBED_DIMENSION": "64"}, ["EMBED_DIMENSION", "EMBED_URL"]),
        ({"GRAPH_PASSWORD": "s3cr3t"}, ["GRAPH_PASSWORD", "GRAPH_URL"]),
        ({"GRAPH_URL": "neo4j://x", "GRAPH_USER": "me"}, ["GRAPH_USER", "GRAPH_PASSWORD"]),
        ({"VECTOR_KEY": "s3cr3t"}, ["VECTOR_KEY", "VECTOR_URL"]),
        ({"RERANK_MODEL": "m"}, ["RERANK_MODEL", "RERANK_URL"]),
        ({"GRAPH_URL": "postgres://x"}, ["GRAPH_URL", "neo4j://"]),
        ({"GRAPH_URL": "graph.db"}, ["GRAPH_URL", "sqlite://"]),
        ({"VECTOR_URL": "http://"}, ["VECTOR_URL"]),
        ({"QUEUE_URL": "amqp://x"}, ["QUEUE_URL", "redis://"]),
        ({"CORS_ORIGINS": "*"}, ["CORS_ORIGINS"]),
        ({"PORT": "s3cr3t"}, ["PORT"]),
        ({"PORT": "70000"}, ["PORT", "65535"]),
        ({"LLM_FORMAT": "yaml"}, ["LLM_FORMAT", "schema"]),
        ({"DEFAULT_WORKSPACE": "a/b"}, ["DEFAULT_WORKSPACE"]),
        ({"OPTIONS__CHUNK_TOKENS": "5"}, ["OPTIONS__CHUNK_TOKENS", "32"]),
        (
            {"OPTIONS__CHUNK_TOKENS": "50", "OPTIONS__CHUNK_OVERLAP": "50"},
            ["CHUNK_OVERLAP", "CHUNK_TOKENS"],
        ),
    ],
)
def test_what_cannot_be_right_stops_the_start_and_is_named(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, str], named: list[str]
) -> None:
    said = refusal(monkeypatch, **values)
    for name in named:
        assert name in said
    assert "s3cr3t" not in said


def test_all_faults_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said = refusal(monkeypatch, LLM_MODEL="m", VECTOR_KEY="k", QUEUE_URL="amqp://x")
    assert len(said.splitlines()) == 3


def test_lists_are_written_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIOGRAPH_OPTIONS__ENTITY_KINDS", "person, place")
    monkeypatch.setenv("HELIOGRAPH_CORS_ORIGINS", "https://a.example,https://b.example")
    settings = load()
    assert settings.options.entity_kinds == ("person", "place")
    assert settings.cors_origins == ("https://a.example", "https://b.example")


def test_secrets_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIOGRAPH_LLM_URL", "openai+http://x/v1")
    monkeypatch.setenv("HELIOGRAPH_LLM_MODEL", "m")
    monkeypatch.setenv("HELIOGRAPH_LLM_KEY", "s3cr3t")
    settings = load()
    assert settings.llm_key.get_secret_value() == "s3cr3t"
    assert "s3cr3t" not in repr(settings)
    assert "s3cr3t" not in str(settings.model_dump())


def test_settings_have_every_option_of_the_domain() -> None:
    assert set(OptionSettings.model_fields) == {field.name for field in dataclasses.fields(Options)}


def shown(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, tuple):
        return ",".join(value)
    return "" if value is None else str(value)


def test_the_example_file_shows_every_setting_with_its_default_and_a_reason() -> None:
    lines = EXAMPLE.read_text().splitlines()
    found = {
        match[1]: (match[2], lines[number - 1])
        for number, line in enumerate(lines)
        if (match := re.fullmatch(r"# (HELIOGRAPH_[A-Z0-9_]+)=(.*)", line))
    }
    expected = {
        PREFIX + name.upper(): shown(field.default)
        for name, field in Settings.model_fields.items()
        if name != "option_settings" and name not in IN_DATA_DIR
    } | {
        f"{PREFIX}OPTIONS__{name.upper()}": shown(field.default)
        for name, field in OptionSettings.model_fields.items()
    }
    assert {name: default for name, (default, _) in found.items() if name in expected} == expected
    assert set(found) == set(expected) | {PREFIX + name.upper() for name in IN_DATA_DIR}
    for name, (_, reason) in found.items():
        assert re.match(r"# [^=]{10,}", reason), f"no reason above {name}"


def test_the_example_file_uncommented_is_a_valid_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = re.sub(r"^# (HELIOGRAPH_)", r"\1", EXAMPLE.read_text(), flags=re.MULTILINE)
    (tmp_path / ".env").write_text(text)
    settings = load()
    assert settings.options == Options()
    assert settings.port == 8080
