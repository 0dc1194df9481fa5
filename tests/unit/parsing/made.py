"""Files for the tests, made from nothing."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence

from app import media
from workers.parsing import Limits, Parsed, parse

LIMITS = Limits(seconds=60)

Placed = tuple[float, float, float, str]  # left, baseline from the bottom, size, text


async def parsed(data: bytes, media_type: str = media.TEXT, *, limits: Limits = LIMITS) -> Parsed:
    return await parse(data, "a", media_type, limits=limits)


def zipped(members: Mapping[str, bytes | str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def pdf(
    pages: Sequence[Sequence[Placed]],
    *,
    title: str = "",
    bold: bool = False,
    rules: Sequence[tuple[float, float, float]] = (),
) -> bytes:
    """Pages of 600 by 800 points, text in Helvetica (WinAnsi), rules as (left, right, height)."""
    font = "Helvetica-Bold" if bold else "Helvetica"
    kids = " ".join(f"{5 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>",
        f"<< /Type /Font /Subtype /Type1 /BaseFont /{font} /Encoding /WinAnsiEncoding >>",
        f"<< /Title ({title}) >>",
    ]
    for number, page in enumerate(pages):
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Resources "
            f"<< /Font << /F 3 0 R >> >> /Contents {6 + 2 * number} 0 R >>"
        )
        content = "\n".join(
            f"BT /F {size} Tf 1 0 0 1 {left} {base} Tm ({_escaped(text)}) Tj ET"
            for left, base, size, text in page
        )
        content += "".join(f"\n{left} {at} m {right} {at} l S" for left, right, at in rules)
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    return _file(objects)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def _file(objects: Sequence[str]) -> bytes:
    body = b"%PDF-1.4\n"
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n".encode("cp1252")
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    trailer = (
        f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
        f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info 4 0 R >>\n"
        f"startxref\n{len(body)}\n%%EOF\n"
    )
    return body + trailer.encode()


def lines(texts: Sequence[str], *, left: float, top: float, size: float = 10) -> list[Placed]:
    return [(left, top - 1.2 * size * number, size, text) for number, text in enumerate(texts)]


def epub(
    chapters: Mapping[str, str], *, order: Sequence[str], extra: Mapping[str, str] | None = None
) -> bytes:
    """Chapters of `order` that `chapters` lacks are in the manifest but not in the file."""
    manifest = "".join(
        f'<item id="{name}" href="{name}" media-type="application/xhtml+xml"/>' for name in order
    )
    spine = "".join(f'<itemref idref="{name}"/>' for name in order)
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": "<container><rootfiles><rootfile full-path='O/p.opf'/>"
            "</rootfiles></container>",
            "O/p.opf": "<package xmlns:dc='http://purl.org/dc/elements/1.1/'><metadata>"
            f"<dc:title>The Book</dc:title></metadata><manifest>{manifest}</manifest>"
            f"<spine>{spine}</spine></package>",
            **{f"O/{name}": text for name, text in chapters.items()},
            **(extra or {}),
        }
    )
