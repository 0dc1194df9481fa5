"""A question, and what a mode needs to know of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.domain.jobs import Usage


class Mode(StrEnum):
    """How `POST /query` retrieves."""

    NAIVE = "naive"
    LOCAL = "local"
    GLOBAL = "global"
    HYBRID = "hybrid"
    MIX = "mix"
    PPR = "ppr"
    HYDE = "hyde"
    RQ = "rq"
    AUTO = "auto"
    SUBGRAPH = "subgraph"
    ASR = "asr"
    COMMUNITY = "community"
    BYPASS = "bypass"


@dataclass(frozen=True, slots=True)
class Keywords:
    """Low: things (entities); high: themes (relations)."""

    low: tuple[str, ...] = ()
    high: tuple[str, ...] = ()
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Passages:
    """Texts written as if documents held them, to search with."""

    texts: tuple[str, ...] = ()
    usage: Usage = Usage()


class Rewriting(StrEnum):
    """What a question needs before it is searched for (RQ-RAG)."""

    NONE = "none"
    REWRITE = "rewrite"
    DECOMPOSE = "decompose"
    DISAMBIGUATE = "disambiguate"


@dataclass(frozen=True, slots=True)
class Queries:
    """What to search for beside the question itself. A text may name the answer to an earlier one
    as `#n`, from 1, where that was asked for."""

    kind: Rewriting = Rewriting.NONE
    texts: tuple[str, ...] = ()
    usage: Usage = Usage()
    readable: bool = True  # False: the reply said nothing of the kind


@dataclass(frozen=True, slots=True)
class Turn:
    role: str  # user | assistant
    content: str


@dataclass(frozen=True, slots=True)
class Budget:
    """Token limits of the context; each part ends where its share or the whole does."""

    entities: int = 6000
    relations: int = 8000
    total: int = 30000


@dataclass(frozen=True, slots=True)
class Anchoring:
    """How modes `asr` and `subgraph` gather and score relations. `budget` counts relations of the
    pool, `deadline_ms` bounds the graph reads that fill it."""

    anchors: int = 16
    hops_topic: int = 2
    hops_anchor: int = 1
    budget: int = 1000
    scorer: str = "auto"  # auto | prior | weights | cosine
    ablate: tuple[str, ...] = ()  # of anchors, gate, gnn, path, topic
    deadline_ms: int = 400


@dataclass(frozen=True, slots=True)
class Question:
    """`workspace`: whose question it is, so that what is remembered of it stays there."""

    text: str
    workspace: str = ""
    mode: Mode = Mode.MIX
    top_k: int = 40
    chunk_top_k: int = 20
    budget: Budget = Budget()
    documents: tuple[str, ...] | None = None  # evidence only from these
    history: tuple[Turn, ...] = ()
    keywords: Keywords | None = None
    keyword_source: str = "auto"  # auto | model | query
    response_type: str = ""
    language: str = ""
    low_level: bool = True
    high_level: bool = True
    source_text: bool = True
    mix_style: str = "walk"  # walk | lightrag
    hyde_passages: int = 3  # that a model writes for mode hyde
    rq_base: Mode = Mode.MIX  # retrieves each query of mode rq
    rq_sequential: bool = False  # a query of mode rq may need what an earlier one finds
    anchoring: Anchoring = Anchoring()
    community_search: str = "level"  # level | nearest
    community_level: int = 1
