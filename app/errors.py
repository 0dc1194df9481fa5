"""The error hierarchy. Adapters raise only these; status and transience decide what happens next.

`detail` is a sentence a caller can act on; it never holds secrets or document text.
"""


class AppError(Exception):
    """Base of all expected errors. `code` is stable and machine-readable."""

    status = 500
    code = "internal"
    title = "Internal error"
    transient = False
    blameless = False  # of what was asked for: something else is shut, so no try is used up

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        retry_after: float | None = None,
        transient: bool | None = None,
        blameless: bool = False,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        if code is not None:
            self.code = code
        if transient is not None:
            self.transient = transient
        self.blameless = blameless
        self.retry_after = retry_after

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later, once someone has mended the cause."""
        return self.status >= 429


class Invalid(AppError):
    """The caller's input cannot be right."""

    status, code, title = 400, "invalid", "Invalid request"


class Unparsable(Invalid):
    """The file's type or content defeats the parser."""

    status, code, title = 415, "unparsable", "Document cannot be parsed"


class NoModel(Invalid):
    """What was asked for takes a language model, and none is configured."""

    status, code, title = 422, "no_model", "Language model required"


class BadRecord(Invalid):
    """A record of an archive that no backup writes."""

    status, code, title = 422, "bad_record", "Unusable record"


class Unauthenticated(AppError):
    """No key, or an unknown one."""

    status, code, title = 401, "unauthenticated", "API key required"


class Forbidden(AppError):
    """A key without the needed scope or workspace."""

    status, code, title = 403, "forbidden", "Not allowed"


class NotFound(AppError):
    status, code, title = 404, "not_found", "Not found"


class Conflict(AppError):
    """Clashes with the present state."""

    status, code, title = 409, "conflict", "Conflict"


class TooLarge(AppError):
    status, code, title = 413, "too_large", "Too large"


class Unsatisfiable(AppError):
    """A range of bytes that a file does not have."""

    status, code, title = 416, "range_not_satisfiable", "Range not satisfiable"


class Overloaded(AppError):
    """A limit was hit, ours or the model's."""

    status, code, title, transient = 429, "overloaded", "Too many requests", True


class BadModelOutput(AppError):
    """The model's reply could not be used."""

    status, code, title, transient = 502, "bad_model_output", "Unusable model output", True


class Unavailable(AppError):
    """A store, queue or model server is away."""

    status, code, title, transient = 503, "unavailable", "Service unavailable", True


class Misconfigured(AppError):
    """Raised at start-up, never while serving."""

    status, code, title = 500, "misconfigured", "Misconfigured"
