"""What the graph stores refuse, in the same words."""

from __future__ import annotations

from app.errors import Conflict, Invalid, Misconfigured, NotFound


def no_document(document_id: str) -> NotFound:
    return NotFound(f"There is no document {document_id}.")


def no_job(job_id: str) -> NotFound:
    return NotFound(f"There is no job {job_id}.")


def no_evaluation(evaluation_id: str) -> NotFound:
    return NotFound(f"There is no evaluation {evaluation_id}.")


def same_job(job_id: str) -> Conflict:
    return Conflict(f"The job {job_id} belongs to a document that was deleted since.")


def same_secret() -> Conflict:
    return Conflict("There is already a key with this secret.")


def still_visible() -> Conflict:
    return Conflict("The document's chunks must be retracted before it is removed.")


def lone_surrogate() -> Invalid:
    """Drivers find it when they encode a text as UTF-8."""
    return Invalid("The text holds a lone surrogate, which is no character.")


def check_schema(found: int, needed: int) -> None:
    """Raises `Misconfigured` unless the store has exactly the schema of this version."""
    if found < needed:
        raise Misconfigured(
            f"The graph store's schema is at {found}, this version needs {needed}: "
            "run `python -m migrations`."
        )
    if found > needed:
        raise Misconfigured(
            f"The graph store's schema is at {found}, this version knows {needed}: "
            "it was written by a newer version."
        )
