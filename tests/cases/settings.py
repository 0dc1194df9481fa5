"""Setting names of case files (as the design calls them) and what they are here."""

from __future__ import annotations

from collections.abc import Mapping

from app.settings import OptionSettings, Settings
from tests.cases.record import Unusable

PREFIX = "HELIOGRAPH_"

# None: nothing here depends on such a limit, so the case runs without it.
NAMES: dict[str, str | None] = {
    "LLM_BASE_URL": "LLM_URL",
    "LLM_API_KEY": "LLM_KEY",
    "LLM_API_BASE": "LLM_URL",
    "LLM_EXTRACT_MODEL": "EXTRACT_MODEL",
    "LLM_SUMMARY_MODEL": "PROFILE_MODEL",
    "LLM_PROFILE_MODEL": "PROFILE_MODEL",
    "LLM_KEYWORD_MODEL": "KEYWORD_MODEL",
    "LLM_KEYWORDS_MODEL": "KEYWORD_MODEL",
    "LLM_ANSWER_MODEL": "ANSWER_MODEL",
    "LLM_MAX_CONCURRENCY": "LLM_CONCURRENCY",
    "LLM_MAX_PARALLEL": "LLM_CONCURRENCY",
    "LLM_RPM": "LLM_REQUESTS_PER_MINUTE",
    "LLM_TPM": "LLM_TOKENS_PER_MINUTE",
    "LLM_CONTEXT": "LLM_CONTEXT_TOKENS",
    "LLM_MAX_TOKENS": "LLM_CONTEXT_TOKENS",
    "EMBEDDING_URL": "EMBED_URL",
    "EMBEDDING_BASE_URL": "EMBED_URL",
    "EMBED_BASE_URL": "EMBED_URL",
    "EMBEDDING_API_KEY": "EMBED_KEY",
    "EMBEDDING_KEY": "EMBED_KEY",
    "EMBEDDING_MODEL": "EMBED_MODEL",
    "EMBEDDING_DIM": "EMBED_DIMENSION",
    "EMBEDDING_DIMENSION": "EMBED_DIMENSION",
    "EMBED_DIM": "EMBED_DIMENSION",
    "EMBEDDING_BATCH": "EMBED_BATCH",
    "EMBEDDING_BATCH_SIZE": "EMBED_BATCH",
    "EMBEDDING_TIMEOUT": "EMBED_TIMEOUT",
    "EMBEDDING_CONCURRENCY": "EMBED_CONCURRENCY",
    "RERANK_BASE_URL": "RERANK_URL",
    "RERANK_API_KEY": "RERANK_KEY",
    "WORKER_JOB_TIMEOUT": None,
    "JOB_TIMEOUT": None,
    "WORKER_MAX_JOBS": "MAX_JOBS",
    "WORKER_CONCURRENCY": "MAX_JOBS",
    "WORKER_LEASE": "LEASE_SECONDS",
    "WORKER_LEASE_S": "LEASE_SECONDS",
    "WORKER_MAX_TRIES": "TRIES",
    "JOB_MAX_TRIES": "TRIES",
    "MAX_TRIES": "TRIES",
    "CHUNK_SIZE": "OPTIONS__CHUNK_TOKENS",
    "CHUNK_OVERLAP_TOKENS": "OPTIONS__CHUNK_OVERLAP",
    "MAX_GLEANINGS": "OPTIONS__GLEANINGS",
    "LANGUAGE": "OPTIONS__LANGUAGE",
    "SUMMARY_LANGUAGE": "OPTIONS__LANGUAGE",
    "ENTITY_TYPES": "OPTIONS__ENTITY_KINDS",
    "PARSE_TIMEOUT": "OPTIONS__PARSE_SECONDS",
    "MAX_UPLOAD_SIZE": "MAX_UPLOAD_BYTES",
    "WORKSPACE": "DEFAULT_WORKSPACE",
    "CORS_ALLOW_ORIGINS": "CORS_ORIGINS",
    "CORS_ALLOWED_ORIGINS": "CORS_ORIGINS",
    "REDIS_URL": "QUEUE_URL",
    "NEO4J_URL": "GRAPH_URL",
    "NEO4J_URI": "GRAPH_URL",
    "NEO4J_USER": "GRAPH_USER",
    "NEO4J_PASSWORD": "GRAPH_PASSWORD",
    "NEO4J_DATABASE": "GRAPH_DATABASE",
    "QDRANT_URL": "VECTOR_URL",
    "QDRANT_API_KEY": "VECTOR_KEY",
}
AUTH = "AUTH"  # on: a first key is made, which closes the service
MODEL_URLS = ("LLM_URL", "EMBED_URL")


def translated(env: Mapping[str, object], *, refused: bool) -> tuple[dict[str, str], bool]:
    """Our variables for those of a case, and whether it wants the service closed by keys.

    With `refused` (the start is to fail) names that nobody knows are passed on as they are."""
    known = {name.upper() for name in Settings.model_fields if name != "option_settings"}
    known |= {f"OPTIONS__{name.upper()}" for name in OptionSettings.model_fields}
    ours: dict[str, str] = {}
    closed = False
    for given, value in env.items():
        name, text = given.upper().removeprefix(PREFIX), str(value)
        if name == AUTH:
            closed = text.lower() in ("on", "1", "true", "yes", "required")
        elif name == "LLM_MAX_RETRIES":  # theirs counts the calls after the first, ours all
            ours[f"{PREFIX}TRIES"] = str(max(1, int(text) + 1))
        elif f"OPTIONS__{name}" in known and name not in known:
            ours[f"{PREFIX}OPTIONS__{name}"] = text
        elif name in known or (NAMES.get(name)):
            mapped = name if name in known else NAMES[name]
            ours[f"{PREFIX}{mapped}"] = _url(text) if mapped in MODEL_URLS else text
        elif name in NAMES:
            continue
        elif refused:
            ours[f"{PREFIX}{name}"] = text
        else:
            raise Unusable(f"setting {given} has no counterpart in tests/cases/settings.py")
    return ours, closed


def _url(text: str) -> str:
    """Model endpoints of cases are plain URLs of the OpenAI dialect; ours name the dialect."""
    return f"openai+{text}" if text.startswith(("http://", "https://")) else text
