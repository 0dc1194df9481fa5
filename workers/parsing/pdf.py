from __future__ import annotations

import pypdfium2

from workers.parsing.layout import Builder, Limits, Parsed
from workers.parsing.refusals import refusal


def parse_pdf(data: bytes, limits: Limits) -> Parsed:
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        raise refusal("encrypted" if "assword" in str(error) else "damaged") from error
    builder = Builder(limits)
    for number, page in enumerate(document, 1):
        builder.page(number)
        builder.block(page.get_textpage().get_text_range().replace("\ufffe", "-\n"))
    if not builder.length:
        raise refusal("no_text")
    return builder.done(document.get_metadata_dict().get("Title", ""))
