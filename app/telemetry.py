"""Log format, the id that ties a request's lines together, and the counters of /metrics."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

# The request or step at hand; every log line carries it.
current: ContextVar[str] = ContextVar("current", default="-")

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


def configure_logging(level: str, form: str) -> None:
    """One handler on standard error for our lines and the server's; `form` is text or json."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(_add_current)
    handler.setFormatter(
        _Json()
        if form == "json"
        else logging.Formatter("%(asctime)s %(levelname)s %(name)s [%(current)s] %(message)s")
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("heliograph").setLevel(level)
    logging.getLogger("uvicorn").setLevel(logging.INFO)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
    # Our own access line has the request id, the workspace and the time taken.
    logging.getLogger("uvicorn.access").disabled = True


def _add_current(record: logging.LogRecord) -> bool:
    record.current = current.get()
    return True


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "id": current.get(),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class Metrics:
    """Counters of one process. Labels never hold names of workspaces, documents or keys."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "heliograph_http_requests",
            "HTTP requests by route template and status",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "heliograph_http_request_seconds",
            "Time until the response was complete",
            ["method", "route"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "heliograph_http_requests_in_flight",
            "Requests being answered now",
            registry=self.registry,
        )
        self.queries = Counter(
            "heliograph_queries",
            "Questions by mode and outcome (answered, nothing_found, failed)",
            ["mode", "outcome"],
            registry=self.registry,
        )
        self.documents = Counter(
            "heliograph_documents_accepted",
            "Documents accepted for ingestion",
            registry=self.registry,
        )
        self.bytes = Counter(
            "heliograph_upload_bytes",
            "Bytes of accepted documents",
            registry=self.registry,
        )
        self.tokens = Counter(
            "heliograph_query_tokens",
            "Model tokens that questions used",
            ["kind"],
            registry=self.registry,
        )
        self.stages = Histogram(
            "heliograph_query_stage_seconds",
            "Time of a question by stage: total is all of it, and stages lie within others",
            ["mode", "stage"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.pool = Histogram(
            "heliograph_asr_pool_relations",
            "Relations that a question in mode asr or subgraph scored",
            ["mode"],
            buckets=(10, 50, 100, 250, 500, 1000, 2500, 5000),
            registry=self.registry,
        )
        self.truncated = Counter(
            "heliograph_asr_truncated",
            "Questions whose pool was cut by its budget or its deadline",
            ["mode", "by"],
            registry=self.registry,
        )
        self.scorers = Counter(
            "heliograph_asr_scorer",
            "Questions by what scored their relations (cosine, prior, weights)",
            ["mode", "scorer"],
            registry=self.registry,
        )
        self.queue_depth = Gauge(
            "heliograph_queue_depth", "Steps waiting in the queue", registry=self.registry
        )

    def count_pool(self, mode: str, pool: Mapping[str, Any]) -> None:
        """As the modes explain it."""
        self.pool.labels(mode).observe(pool["relations"])
        self.scorers.labels(mode, pool["scorer"]).inc()
        for by, name in (("budget", "truncated"), ("deadline", "deadline")):
            if pool[name]:
                self.truncated.labels(mode, by).inc()

    def render(self) -> bytes:
        """Prometheus text format."""
        return generate_latest(self.registry)
