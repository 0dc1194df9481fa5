"""Why a document is refused: stable codes, each with a sentence that says what to do."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from app.errors import Unparsable

SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        "unsupported_type": (
            "This type of file is not supported. Send PDF, DOCX, PPTX, XLSX, HTML, EPUB, Markdown, "
            "CSV, TSV, JSON, JSON Lines or plain text; save older Office files in the new formats."
        ),
        "encrypted": (
            "The file is protected by a password or by rights management. "
            "Remove the protection and upload it again."
        ),
        "no_text": (
            "The file has no text layer; it seems to be a scan. Run it through OCR "
            "(for example OCRmyPDF) and upload the result."
        ),
        "empty": "The file holds no text. Check that the right file was uploaded.",
        "damaged": (
            "The file is damaged or not of the type it claims to be. "
            "Open and save it again in its own program, or export it as PDF."
        ),
        "too_complex": (
            "Reading the file took more time or memory than allowed. "
            "Split it into smaller files or save it in a simpler format."
        ),
        "too_long": "The file holds more text than allowed. Split it into smaller files.",
        "bomb": "The file unpacks to far more data than allowed. Split it into smaller files.",
        "binary": (
            "The file was sent as text but holds binary data. "
            "Send it with its right file name or media type, or convert it to text."
        ),
    }
)


def refusal(code: str) -> Unparsable:
    return Unparsable(SENTENCES[code], code=code)
