from __future__ import annotations

import pytest

from app.domain import EntityMention, Extraction
from app.folding import collate
from app.subjects import about, naming_title, subjects, title_of


@pytest.mark.parametrize(
    ("name", "parsed", "title"),
    [
        ("Lake Inari", "", "Lake Inari"),
        ("Dr. No", "", "Dr. No"),
        ("Node.js", "", "Node.js"),
        ("  Lake Inari ", "Something else", "Lake Inari"),
        ("report.pdf", "Annual Report 2023", "Annual Report 2023"),
        ("report.pdf", "", "report"),
        ("folder/My report.DOCX", "", "My report"),
        ("report.docx", "Microsoft Word - final draft.doc", "final draft"),
        ("report.pdf", "Untitled", "report"),
        ("annual-report_2023.pdf", "", "annual report 2023"),
        ("Well-known facts.txt", "", "Well-known facts"),
    ],
)
def test_a_documents_title_is_its_name_unless_that_is_a_file_name(
    name: str, parsed: str, title: str
) -> None:
    assert title_of(name, parsed) == title


@pytest.mark.parametrize(
    ("name", "parsed", "naming"),
    [
        ("meeting-notes.txt", "", ""),
        ("a_christmas_carol.txt", "", ""),
        ("note.txt", "", ""),
        ("Emma.txt", "", "Emma"),
        ("Lake-Inari.md", "", "Lake Inari"),
        ("meeting-notes.txt", "Board meeting", "Board meeting"),
        ("三国演义.txt", "", "三国演义"),
        ("lake inari", "", "lake inari"),
    ],
)
def test_a_bare_file_name_does_not_name_what_a_document_is_about(
    name: str, parsed: str, naming: str
) -> None:
    assert naming_title(name, parsed) == naming


@pytest.mark.parametrize(
    ("title", "headings", "expected"),
    [
        ("Lake Inari", (), ("Lake Inari",)),
        ("Emma (novel)", (), ("Emma (novel)",)),
        ("annual_report_2023.pdf", (), ()),
        ("20260105_1100", (), ()),
        ("2023", (), ()),
        ("Introduction", ("Table of contents",), ()),
        (
            "Handbook of Acme",
            ("4 Leave", "4.2 Parental leave"),
            ("Handbook of Acme", "Parental leave"),
        ),
        ("", ("Parental leave", "Overview"), ("Parental leave",)),
        ("Chapter 3", ("Chapter 3: The Storm",), ("The Storm",)),
        ("How do I reset my password?", (), ()),
        ("https://example.org/page", (), ()),
        ("长江", (), ("长江",)),
        ("", ("STAVE ONE MARLEY'S GHOST",), ("MARLEY'S GHOST",)),
        ("", ("第一回 宴桃园豪杰三结义",), ("宴桃园豪杰三结义",)),
    ],
)
def test_usable_titles_and_the_innermost_heading_are_what_a_chunk_is_about(
    title: str, headings: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert subjects(title, headings, "").about == expected


def test_a_title_wins_over_the_subject_of_the_first_sentence() -> None:
    assert subjects("Lake Inari", (), "Oulu is a city in Finland.").about == ("Lake Inari",)


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("Teutberga( died 875) was a queen of Lotharingia by marriage.", "Teutberga"),
        (
            '"45 Calibre Echo" is a 1932 American Western film directed by Bruce Mitchell.',
            "45 Calibre Echo",
        ),
        ("The Beatles were an English rock band formed in Liverpool in 1960.", "The Beatles"),
        ("It Happened One Night is a 1934 film directed by Frank Capra.", "It Happened One Night"),
        ("Atomised (also known as The Elementary Particles) is a German film.", "Atomised"),
        ("Norwich ( ) is a cathedral city in Norfolk, England.", "Norwich"),
        ("Der Rhein ist ein Strom in Mitteleuropa mit vielen Zuflüssen und Häfen.", "Der Rhein"),
        ("Inari.\nLake Inari is the largest lake in Sápmi and the third-largest in Finland.", None),
        ("长江（又称扬子江）是亚洲第一长河。", "长江"),
        ("東京は、日本の首都である。", "東京"),
        ("lake inari is the largest lake in sápmi and covers much of the north.", "lake inari"),
    ],
)
def test_without_a_title_the_subject_of_the_first_sentence_is_taken(
    text: str, subject: str | None
) -> None:
    assert subjects("", (), text).about[:1] == ((subject,) if subject else ())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n ",
        "He was born in Oulu and moved to Helsinki, where he worked as an engineer for a decade.",
        "In 1990 the company was sold to its largest competitor, which closed the plant.",
        "On 26 October 2012, Lufthansa announced that it would terminate its contract.",
        "the treaty was signed in May. Later Oulu was rebuilt and the harbour was dredged again.",
        "Time: 20260105_11:00\nLiHua: Hey! Just wanted to let you know that I have arrived!",
        "他是一位作家，出生于北京。",
        "A" * 5000,
        "(((((" * 200,
    ],
)
def test_no_subject_is_made_up_where_the_first_sentence_has_none(text: str) -> None:
    assert subjects("", (), text).about == ()


def test_a_definition_is_about_both_of_its_terms() -> None:
    found = subjects("", (), "An actor or actress is a person who portrays a character.")
    assert found.about == ("actor", "actress")
    remote = "A disc jockey, more commonly abbreviated as DJ, is a person who plays music."
    assert subjects("", (), remote).about == ("disc jockey",)


def test_other_terms_of_a_defined_title_are_its_aliases() -> None:
    found = subjects("Actor", (), "An actor or actress is a person who portrays a character.")
    assert found.about == ("Actor",)
    assert found.aliases == (("Actor", ("actress",)),)
    assert subjects("Theatre", (), "An actor or actress is a person on a stage.").aliases == ()
    assert subjects("Actor", (), "An actor is a person on a stage.").aliases == ()


@pytest.mark.parametrize(
    ("text", "alias"),
    [
        ("George James Rankin (1887 – 1957) was an Australian soldier.", "George Rankin"),
        ('William "Bill" Smith (born 1950) is an American singer from Ohio.', "Bill Smith"),
        ("Sir David Watson (7 February 1869 – 1922) was a journalist.", "David Watson"),
        ("Stone, Staffordshire, is a market town in England.", "Stone, Staffordshire"),
        ("Stefani Germanotta, known as Lady Gaga, is an American singer.", "Lady Gaga"),
        ("Waylon J. Smithers Jr., usually referred to as Mr. Smithers, is a man.", "Mr. Smithers"),
        ("Bruce Leung Siu-lung (born Leung Choi-sang; 1948) is an actor.", "Leung Choi-sang"),
    ],
)
def test_other_names_of_the_subject_are_aliases(text: str, alias: str) -> None:
    found = subjects("", (), text)
    [(name, aliases)] = found.aliases
    assert name == found.about[0]
    assert alias in aliases


def test_places_get_no_shortened_names() -> None:
    found = subjects("", (), "San Carlos Sija (pop. 30,000) is a municipality in Guatemala.")
    assert found.about == ("San Carlos Sija",)
    assert found.aliases == ()


def test_the_name_without_its_bracket_is_an_alias() -> None:
    assert subjects("Emma (novel)", (), "").aliases == (("Emma (novel)", ("Emma",)),)


def test_what_the_extraction_calls_otherwise_keeps_its_name() -> None:
    said = Extraction((EntityMention("Emma", "work", "A novel.", ("Emma (novel)",)),))
    [row], _ = collate(about(said, "Emma (novel)", (), "It is a novel."))
    assert (row.key, row.about, row.description) == ("emma", True, "A novel.")
    assert "Emma (novel)" in row.aliases


def test_about_adds_the_names_to_what_the_chunk_says_already() -> None:
    said = Extraction((EntityMention("lake inari", "location", "A lake."),), model="m")
    [row], _ = collate(about(said, "Lake Inari", (), "It is large."))
    assert (row.about, row.kind, row.description) == (True, "location", "A lake.")


def test_about_leaves_an_extraction_without_subject_as_it_is() -> None:
    said = Extraction((EntityMention("Oulu", "location", "A city."),))
    assert about(said, "notes.txt", (), "He moved to Oulu.") is said


def test_about_is_the_same_when_applied_twice() -> None:
    text = "George James Rankin (1887 – 1957) was an Australian soldier."
    once = about(Extraction(), "", (), text)
    assert collate(about(once, "", (), text)) == collate(once)
