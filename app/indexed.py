"""The texts that vectors are made of."""

from __future__ import annotations

from app.domain import Chunk, Document, Entity, Plan, Relation, Report
from app.subjects import title_of


def document_title(document: Document) -> str:
    """Of the coming revision only while it is on its way: one that failed or was cancelled has
    changed nothing."""
    on_its_way = document.job.plan is Plan.INGEST and not document.job.state.final
    revision = document.coming if on_its_way else document.revision
    return title_of(revision.name, revision.title)


def chunk_text(title: str, chunk: Chunk) -> str:
    return "\n".join(line for line in (title, *chunk.headings, chunk.text) if line)


def entity_text(entity: Entity) -> str:
    return f"{entity.name}\n{entity.profile}"


def relation_text(relation: Relation) -> str:
    """The ends in the order of their names: that of their keys depends on what came first."""
    ends = " -- ".join(sorted((relation.source_name, relation.target_name)))
    return f"{ends}: {', '.join(relation.keywords)}\n{relation.profile}"


def report_text(report: Report) -> str:
    return "\n".join([report.title, report.summary, *(one.summary for one in report.findings)])
