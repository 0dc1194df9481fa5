"""The one reader of the environment: every setting, its default, its limits, and what contradicts.

`load()` is what entry points call. Unknown names, values out of range and contradictions raise
`Misconfigured` with a message that names the variable and never repeats a value.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from dotenv import dotenv_values
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.domain import Options
from app.errors import Misconfigured

PREFIX = "HELIOGRAPH_"
DOTENV = Path(".env")
# Read by the tests and benches, never by the service.
FOREIGN = ("HELIOGRAPH_SHARED", "HELIOGRAPH_TEST_")

GRAPH_SCHEMES = ("sqlite", "neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
VECTOR_SCHEMES = ("edge", "http", "https")
BLOB_SCHEMES = ("file", "s3", "gs", "az")
QUEUE_SCHEMES = ("embedded", "redis", "rediss", "unix")
MODEL_SCHEMES = ("offline", "openai+http", "openai+https", "ollama+http", "ollama+https")
RERANK_SCHEMES = ("http", "https")

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def _split(value: object) -> object:
    """Lists are written with commas."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Listed = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
WorkspaceName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Price = Annotated[float, Field(ge=0)]

_OPTIONS = Options()


class OptionSettings(BaseModel):
    """`app.domain.Options` with limits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    chunk_tokens: int = Field(
        _OPTIONS.chunk_tokens, ge=32, le=8192, description="Longest chunk, in tokens."
    )
    chunk_overlap: int = Field(
        _OPTIONS.chunk_overlap, ge=0, description="Tokens that neighbouring chunks share."
    )
    chunks_per_step: int = Field(
        _OPTIONS.chunks_per_step,
        ge=1,
        le=256,
        description="Chunks that one worker takes at a time.",
    )
    gleanings: int = Field(
        _OPTIONS.gleanings,
        ge=0,
        le=5,
        description="Extra extraction rounds per chunk; one costs over half of all tokens.",
    )
    profile_tokens: int = Field(
        _OPTIONS.profile_tokens,
        ge=50,
        le=4000,
        description="Longest profile of a thing, in tokens.",
    )
    summary_threshold: int = Field(
        _OPTIONS.summary_threshold,
        ge=100,
        description="Tokens of descriptions beyond which a model summarises them.",
    )
    entity_kinds: Listed = Field(
        _OPTIONS.entity_kinds, min_length=1, description="Types that extraction may give a thing."
    )
    language: str = Field(
        _OPTIONS.language, description="Language of profiles; empty follows the documents."
    )
    dense_weight: float = Field(
        _OPTIONS.dense_weight,
        ge=0,
        le=1,
        description="Share of the dense vector against words in direct search (mode mix).",
    )
    report_tokens: int = Field(
        _OPTIONS.report_tokens,
        ge=200,
        le=100_000,
        description="Tokens of facts that a community's report is made from.",
    )
    report_size: int = Field(
        _OPTIONS.report_size,
        ge=2,
        le=10_000,
        description="Entities from which on a model writes a community's report.",
    )
    community_reports: int = Field(
        _OPTIONS.community_reports,
        ge=1,
        le=10_000,
        description="Reports that a question in mode community is put to, the best rated.",
    )
    community_calls: int = Field(
        _OPTIONS.community_calls,
        ge=1,
        le=100,
        description="Model calls at a time for one question in mode community.",
    )

    parse_seconds: float = Field(
        _OPTIONS.parse_seconds, gt=0, description="Seconds that parsing one file may take."
    )
    parse_memory_mb: int = Field(
        _OPTIONS.parse_memory_mb, ge=128, description="Memory that parsing a file may take, in MiB."
    )

    @model_validator(mode="after")
    def _overlap_fits(self) -> Self:
        if self.chunk_overlap >= self.chunk_tokens:
            raise ValueError("CHUNK_OVERLAP must be smaller than CHUNK_TOKENS")
        return self


class Settings(BaseSettings):
    """Everything that can be configured. All defaults together are the embedded service."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=DOTENV,
        env_nested_delimiter="__",
        env_ignore_empty=True,
        extra="ignore",  # unknown names are found by `load`, which sees where they come from
        frozen=True,
        hide_input_in_errors=True,
        populate_by_name=True,
    )

    # --- serving
    host: str = Field(
        "127.0.0.1",
        description="Address to listen on. Another than loopback needs an API key first.",
    )
    port: int = Field(8080, ge=0, le=65535, description="Port of the HTTP API.")
    data_dir: Path = Field(Path("data"), description="Folder of the embedded stores.")
    default_workspace: WorkspaceName = Field(
        "default", description="Workspace of requests that name none."
    )
    cors_origins: Listed = Field(
        (),
        description="Web origins whose pages may call the API (https://a.example,https://b.example).",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="DEBUG, INFO, WARNING or ERROR."
    )
    log_format: Literal["text", "json"] = Field("text", description="text, or json for collectors.")

    # --- limits
    max_upload_bytes: int = Field(
        100 * 2**20, ge=1024, description="Largest upload: all files of a request together."
    )
    max_restore_bytes: int = Field(
        64 * 2**30, ge=2**20, description="Largest archive that POST /restore takes, unpacked."
    )
    max_documents_per_request: int = Field(
        200, ge=1, le=10_000, description="Most documents in one upload."
    )
    max_jobs: int = Field(8, ge=1, le=1000, description="Steps that one worker runs at a time.")
    lease_seconds: float = Field(
        30.0,
        ge=1,
        description="After so long without a sign of life a step goes to another worker.",
    )
    tries: int = Field(5, ge=1, le=100, description="Tries of a step before its document fails.")

    # --- stores
    graph_url: str = Field(
        "", description="sqlite://<path> or neo4j://host:7687 (also neo4j+s, bolt, bolt+s)."
    )
    graph_user: str = Field("", description="Neo4j user; neo4j if only a password is set.")
    graph_password: SecretStr = Field(SecretStr(""), description="Neo4j password.")
    graph_database: str = Field("", description="Neo4j database; empty means the server's default.")
    vector_url: str = Field("", description="edge://<path> or http://host:6333 (a Qdrant server).")
    vector_key: SecretStr = Field(SecretStr(""), description="API key of the Qdrant server.")
    blob_url: str = Field(
        "", description="Originals: file://<path>, s3://bucket/prefix, gs://… or az://…."
    )
    queue_url: str = Field("embedded://", description="embedded:// or redis://host:6379/0.")

    # --- the language model
    llm_url: str = Field(
        "offline://",
        description="offline:// (rules, no model), openai+https://host/v1 or ollama+http://host:11434.",
    )
    llm_key: SecretStr = Field(SecretStr(""), description="API key of the model endpoint.")
    llm_model: str = Field("", description="Model for everything that does not name another.")
    extract_model: str = Field("", description="Model that reads chunks.")
    profile_model: str = Field("", description="Model that summarises.")
    judge_model: str = Field(
        "",
        description="Model that is asked which doubtful names are one thing (empty: none is), and "
        "judges evaluations.",
    )
    report_model: str = Field("", description="Model that writes reports on communities.")
    keyword_model: str = Field("", description="Model that finds a question's keywords.")
    rewrite_model: str = Field("", description="Model that rewrites questions (modes hyde and rq).")
    answer_model: str = Field("", description="Model that answers.")
    llm_format: Literal["auto", "schema", "json", "text"] = Field(
        "auto", description="How to ask for structure: schema, json, text; auto finds out."
    )
    llm_concurrency: int = Field(
        8, ge=1, le=1000, description="Model calls at the same time, of all processes."
    )
    llm_requests_per_minute: int = Field(
        0, ge=0, description="Model calls per minute; 0: no limit."
    )
    llm_tokens_per_minute: int = Field(0, ge=0, description="Model tokens per minute; 0: no limit.")
    llm_timeout: float = Field(180.0, gt=0, description="Seconds until a model call is given up.")
    llm_context_tokens: int = Field(
        32_768, ge=2048, description="Context window of the model, prompt and reply together."
    )
    llm_prompt_price: Price = Field(0.0, description="Price of a million prompt tokens.")
    llm_completion_price: Price = Field(0.0, description="Price of a million reply tokens.")

    # --- the embedder
    embed_url: str = Field("offline://", description="offline:// or as HELIOGRAPH_LLM_URL.")
    embed_key: SecretStr = Field(SecretStr(""), description="API key of the embedding endpoint.")
    embed_model: str = Field("", description="Embedding model.")
    embed_dimension: int | None = Field(
        None, ge=8, le=65_536, description="Dimension of its vectors; empty: ask it."
    )
    embed_batch: int = Field(64, ge=1, le=2048, description="Texts in one embedding call.")
    embed_concurrency: int = Field(
        4, ge=1, le=1000, description="Embedding calls at the same time, of all processes."
    )
    embed_requests_per_minute: int = Field(
        0, ge=0, description="Embedding calls per minute; 0: no limit."
    )
    embed_tokens_per_minute: int = Field(
        0, ge=0, description="Embedding tokens per minute; 0: no limit."
    )
    embed_timeout: float = Field(
        60.0, gt=0, description="Seconds until an embedding call is given up."
    )
    embed_price: Price = Field(0.0, description="Price of a million embedded tokens.")

    # --- the reranker
    rerank_url: str = Field(
        "", description="Rerank endpoint (https://host/v1/rerank); empty: none is used."
    )
    rerank_key: SecretStr = Field(SecretStr(""), description="API key of the rerank endpoint.")
    rerank_model: str = Field("", description="Rerank model.")

    prompts_dir: str = Field(
        "", description="Folder whose *.md files replace the shipped prompts of the same names."
    )
    asr_weights: str = Field(
        "",
        description="Weights for mode asr: a file, or a folder of <workspace>.npz; empty: those "
        "that come with the package, if any.",
    )
    tokenizer: Literal["o200k_base", "cl100k_base"] = Field(
        "o200k_base", description="tiktoken encoding that counts tokens: o200k_base or cl100k_base."
    )

    option_settings: OptionSettings = Field(
        OptionSettings(),
        validation_alias=f"{PREFIX}OPTIONS",
        description="Ingestion and retrieval.",
    )

    @property
    def options(self) -> Options:
        return Options(
            **{name: getattr(self.option_settings, name) for name in OptionSettings.model_fields}
        )

    @property
    def on_loopback(self) -> bool:
        return self.host.strip("[]").lower() in LOOPBACK

    @model_validator(mode="before")
    @classmethod
    def _stores_lie_in_the_data_folder(cls, values: dict[str, Any]) -> dict[str, Any]:
        folder = Path(values.get("data_dir") or cls.model_fields["data_dir"].default)
        folder = folder.expanduser().resolve()
        defaults = {
            "graph_url": f"sqlite://{folder / 'graph.db'}",
            "vector_url": f"edge://{folder / 'vectors'}",
            "blob_url": f"file://{folder / 'blobs'}",
        }
        return {
            **values,
            "data_dir": folder,
            **{k: v for k, v in defaults.items() if not values.get(k)},
        }

    @model_validator(mode="after")
    def _nothing_contradicts(self) -> Self:
        faults = [*_schemes(self), *_contradictions(self)]
        if faults:
            raise ValueError("\n".join(faults))
        return self


def local_path(url: str) -> Path:
    """The path of a sqlite://, edge:// or file:// URL: all that follows `://`. Three slashes begin
    an absolute path, two a relative one."""
    return Path(url.partition("://")[2]).expanduser()


def load(*, env_file: Path | None = DOTENV) -> Settings:
    """Settings from the environment and, where that is silent, from `env_file`."""
    unknown = list(_unknown(env_file))
    if unknown:
        raise Misconfigured("\n".join(unknown))
    try:
        return Settings(_env_file=env_file)
    except ValidationError as error:
        raise Misconfigured("\n".join(_sentences(error))) from None


# --- checks --------------------------------------------------------------------------------------


def _schemes(settings: Settings) -> Iterator[str]:
    for name, schemes in (
        ("graph_url", GRAPH_SCHEMES),
        ("vector_url", VECTOR_SCHEMES),
        ("blob_url", BLOB_SCHEMES),
        ("queue_url", QUEUE_SCHEMES),
        ("llm_url", MODEL_SCHEMES),
        ("embed_url", MODEL_SCHEMES),
        ("rerank_url", RERANK_SCHEMES),
    ):
        url: str = getattr(settings, name)
        if not url:
            continue
        scheme, separator, rest = url.partition("://")
        if not separator or scheme not in schemes:
            allowed = ", ".join(f"{scheme}://" for scheme in schemes)
            yield f"{_variable(name)} must begin with one of {allowed}"
        elif not rest and scheme not in ("offline", "embedded"):
            yield f"{_variable(name)} ends after {scheme}://"


def _contradictions(settings: Settings) -> Iterator[str]:
    llm_only = (
        "llm_key",
        "llm_model",
        "extract_model",
        "profile_model",
        "keyword_model",
        "rewrite_model",
        "judge_model",
        "report_model",
        "answer_model",
    )
    for url, without, needs in (
        ("llm_url", "offline", llm_only),
        ("embed_url", "offline", ("embed_key", "embed_model", "embed_dimension")),
        ("graph_url", "sqlite", ("graph_user", "graph_password", "graph_database")),
        ("vector_url", "edge", ("vector_key",)),
        ("rerank_url", "", ("rerank_key", "rerank_model")),
    ):
        if getattr(settings, url).partition("://")[0] != without:
            continue
        for name in needs:
            if _is_set(getattr(settings, name)):
                what = f"is {without}://" if without else "is not set"
                yield f"{_variable(name)} is set, but {_variable(url)} {what}"
    for url, model in (("llm_url", "llm_model"), ("embed_url", "embed_model")):
        if not getattr(settings, url).startswith("offline:") and not getattr(settings, model):
            yield f"{_variable(url)} is set, but {_variable(model)} does not say which model to use"
    if settings.graph_user and not settings.graph_password.get_secret_value():
        yield f"{_variable('graph_user')} is set, but {_variable('graph_password')} is not"
    if "*" in settings.cors_origins:
        yield f"{_variable('cors_origins')} must list origins; * would let any web page in"


def _is_set(value: object) -> bool:
    return bool(value.get_secret_value() if isinstance(value, SecretStr) else value)


def _unknown(env_file: Path | None) -> Iterator[str]:
    known = {_variable(name) for name in Settings.model_fields if name != "option_settings"}
    known |= {f"{PREFIX}OPTIONS__{name.upper()}" for name in OptionSettings.model_fields}
    for place, values in _places(env_file):
        for name in sorted(values):
            upper = name.upper()
            if not upper.startswith(PREFIX) or upper in known or upper.startswith(FOREIGN):
                continue
            near = difflib.get_close_matches(upper, known, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield f"{name} ({place}) is not a setting of this version{hint}"


def _places(env_file: Path | None) -> Iterator[tuple[str, Mapping[str, str | None]]]:
    yield "environment", os.environ
    if env_file is not None and env_file.is_file():
        yield str(env_file), dotenv_values(env_file)


def _sentences(error: ValidationError) -> Iterator[str]:
    for fault in error.errors(include_url=False, include_context=False, include_input=False):
        message = fault["msg"].removeprefix("Value error, ")
        place = [str(part) for part in fault["loc"]]
        if place and place[0] in ("option_settings", f"{PREFIX}OPTIONS"):
            place[0] = "options"
        yield f"{PREFIX}{'__'.join(place).upper()}: {message}" if place else message


def _variable(name: str) -> str:
    return PREFIX + name.upper()
