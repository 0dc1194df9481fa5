from __future__ import annotations

import io

import docx
import pptx
from docx.document import Document
from pptx.util import Inches

from app import media
from tests.unit.parsing.made import parsed, zipped

W = "xmlns:w='http://schemas.openxmlformats.org/wordprocessingml/2006/main'"


def saved(document: Document) -> bytes:
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


async def test_word_comes_in_body_order_with_headings_lists_and_margins_once() -> None:
    document = docx.Document()
    document.core_properties.title = "The title"
    document.sections[0].header.paragraphs[0].text = "Confidential"
    document.sections[0].footer.paragraphs[0].text = "12"
    document.add_heading("One", 1)
    document.add_paragraph("First.\nSame paragraph.")
    table = document.add_table(2, 2)
    for number, cell in enumerate(cell for row in table.rows for cell in row.cells):
        cell.text = f"c{number}"
    document.add_paragraph("item a", style="List Bullet")
    document.add_paragraph("item b", style="List Bullet")
    document.add_heading("Two", 2)
    document.add_section()
    result = await parsed(saved(document), media.DOCX)
    assert result.title == "The title"
    assert [(h.level, h.text) for h in result.headings] == [(1, "One"), (2, "Two")]
    assert result.text == (
        "Confidential\n\nOne\n\nFirst.\nSame paragraph.\n\nc0 | c1\nc2 | c3\n\n"
        "- item a\n- item b\n\nTwo"
    )


def word(body: str, **parts: str) -> bytes:
    """A document whose further parts are given by their kind, such as `footnotes`."""
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    links = "".join(
        f"<Relationship Id='r{kind}' Type='{office}/{kind}' Target='{kind}.xml'/>" for kind in parts
    )
    return zipped(
        {
            "_rels/.rels": "<Relationships><Relationship Id='r' "
            f"Type='{office}/officeDocument' Target='word/document.xml'/></Relationships>",
            "word/_rels/document.xml.rels": f"<Relationships>{links}</Relationships>",
            "word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>",
            **{
                f"word/{kind}.xml": f"<w:{kind} {W}>{xml}</w:{kind}>" for kind, xml in parts.items()
            },
        }
    )


async def test_notes_follow_their_paragraph_and_deleted_text_is_gone() -> None:
    data = word(
        "<w:p><w:r><w:t>Bees</w:t></w:r><w:r><w:footnoteReference w:id='2'/></w:r>"
        "<w:del><w:r><w:delText>old</w:delText></w:r></w:del>"
        "<w:ins><w:r><w:t> fly</w:t></w:r></w:ins></w:p>"
        "<w:sdt><w:sdtContent><w:p><w:r><w:t>In a control</w:t></w:r></w:p></w:sdtContent></w:sdt>",
        footnotes="<w:footnote w:type='separator' w:id='0'><w:p/></w:footnote>"
        "<w:footnote w:id='2'><w:p><w:r><w:t>Apis mellifera</w:t></w:r></w:p></w:footnote>",
    )
    assert (
        await parsed(data, media.DOCX)
    ).text == "Bees[2] fly\n[2] Apis mellifera\n\nIn a control"


async def test_slides_are_pages_with_titles_tables_and_notes() -> None:
    show = pptx.Presentation()
    for number in (1, 2):
        slide = show.slides.add_slide(show.slide_layouts[5])
        low = slide.shapes.add_textbox(Inches(1), Inches(5), Inches(2), Inches(1))
        low.text_frame.text = f"low {number}"
        high = slide.shapes.add_textbox(Inches(1), Inches(2), Inches(2), Inches(1))
        high.text_frame.text = f"high {number}"
        slide.shapes.title.text = f"Title {number}"
        slide.notes_slide.notes_text_frame.text = f"said {number}"
    frame = slide.shapes.add_table(1, 2, Inches(1), Inches(6), Inches(4), Inches(1))
    frame.table.cell(0, 0).text, frame.table.cell(0, 1).text = "a", "b"
    buffer = io.BytesIO()
    show.save(buffer)
    result = await parsed(buffer.getvalue(), media.PPTX)
    assert result.text == (
        "Title 1\n\nhigh 1\n\nlow 1\n\nNotes: said 1\n\n"
        "Title 2\n\nhigh 2\n\nlow 2\n\na | b\n\nNotes: said 2"
    )
    assert [number for _, number in result.pages] == [1, 2]
    assert [h.text for h in result.headings] == ["Title 1", "Title 2"]
