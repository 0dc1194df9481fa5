"""What is kept of a model's reply, what is dropped and why."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.reader import Reading, read_extraction, read_keywords, read_text

ADA = {"name": "Ada Lovelace", "type": "Person", "description": "Wrote notes on the engine."}
BABBAGE = {"name": "Charles Babbage", "type": "Person", "description": "Inventor."}
ENGINE = {"name": "Analytical Engine", "type": "Artifact", "description": "A computer."}
WORKED = {
    "source": "Ada Lovelace", "target": "Charles Babbage", "description": "They worked together.",
    "keywords": "collaboration, science", "strength": 8,
}  # fmt: skip
WHOLE = {"entities": [ADA, BABBAGE, ENGINE], "relationships": [WORKED]}


def names(reading: Reading) -> list[str]:
    return [entity.name for entity in reading.entities]


def pairs(reading: Reading) -> list[tuple[str, str]]:
    return [(relation.source, relation.target) for relation in reading.relations]


def reply(*entities: Any, relations: Any = ()) -> Reading:
    return read_extraction(json.dumps({"entities": entities, "relationships": list(relations)}))


def assert_whole(text: str) -> None:
    reading = read_extraction(text)
    assert names(reading) == ["Ada Lovelace", "Charles Babbage", "Analytical Engine"]
    assert pairs(reading) == [("Ada Lovelace", "Charles Babbage")]
    assert reading.relations[0].keywords == ("collaboration", "science")
    assert reading.relations[0].strength == 8
    assert reading.entities[0].kind == "person"
    assert not reading.dropped


# --- JSON and its wrappings ----------------------------------------------------------------------

JSON = json.dumps(WHOLE)


@pytest.mark.parametrize(
    "text",
    [
        JSON,
        f"[{JSON}]",
        f"```json\n{JSON}\n```",
        f"Here you are:\n\n```\n{JSON}\n```\nI hope that this helps {{you}}!",
        f"<think>maybe {{\"entities\": [{{\"name\": \"Draft\"}}]}} …</think>\n{JSON}",
        f"thoughts of which the template ate the tag </think>{JSON}",
        json.dumps({"result": {"data": WHOLE}}),
        json.dumps({"entities": WHOLE["entities"]}) + "\n"
        + json.dumps({"relationships": WHOLE["relationships"]}),
        json.dumps([*WHOLE["entities"], WORKED]),
        "\n".join(map(json.dumps, [*WHOLE["entities"], WORKED])),
        repr(WHOLE),
        JSON.replace('"', "“", 0).replace("}, {", "},\n\n,{"),
        JSON.replace("]", ",]").replace("}", ",}"),
        JSON.replace(', "', '\n "'),
        JSON.replace('"name"', "name").replace('"source"', "source"),
        JSON[:-2] + "}",
        JSON.replace("Inventor.", 'Inventor, said "yes, indeed", of it.'),
        JSON.replace("Inventor.", "Inventor\nof\tengines"),
        "\ufeff" + JSON,
        JSON.replace("{", "{ // a comment\n", 1),
    ],
)  # fmt: skip
def test_a_reply_is_read_whatever_it_is_wrapped_in(text: str) -> None:
    assert_whole(text)


@pytest.mark.parametrize(
    ("renamed", "text"),
    [
        (k, JSON.replace(f'"{k}"', f'"{v}"'))
        for k, v in [
            ("entities", "nodes"), ("entities", "Entities"), ("relationships", "relations"),
            ("relationships", "edges"), ("name", "entity_name"), ("type", "entity_type"),
            ("source", "src_id"), ("source", "src"), ("source", "subject"), ("source", "from"),
            ("target", "tgt_id"), ("target", "object"), ("keywords", "relationship_keywords"),
            ("strength", "weight"), ("description", "entity_description"),
        ]
    ],
)  # fmt: skip
def test_keys_of_other_projects_are_understood(renamed: str, text: str) -> None:
    assert renamed
    assert_whole(text)


def test_a_bare_list_of_entities_has_no_relations() -> None:
    reading = read_extraction(json.dumps(WHOLE["entities"]))
    assert len(reading.entities) == 3
    assert reading.readable


def test_entities_by_name_and_rows_are_understood() -> None:
    by_name = read_extraction(
        json.dumps({"entities": {"Ada": {"type": "person"}, "Charles": {"type": "person"}}})
    )
    assert names(by_name) == ["Ada", "Charles"]
    rows = read_extraction(
        json.dumps(
            {"entities": ["Ada", ["Charles", "person"]], "relations": [["Ada", "met", "Bob"]]}
        )
    )
    assert names(rows) == ["Ada", "Charles", "Bob"]
    assert rows.relations[0].keywords == ("met",)


def test_relations_by_id_get_the_names() -> None:
    nodes = [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Charles"}]
    reading = read_extraction(json.dumps({"nodes": nodes, "edges": [{"source": 1, "target": 2}]}))
    assert pairs(reading) == [("Ada", "Charles")]


@pytest.mark.parametrize("length", range(20, len(JSON), 7))
def test_a_reply_cut_off_anywhere_keeps_its_whole_records(length: int) -> None:
    reading = read_extraction(JSON[:length], cut=True)
    whole = [e["name"] for e in (ADA, BABBAGE, ENGINE) if json.dumps(e) in JSON[:length]]
    assert [n for n in names(reading) if n in whole] == whole
    assert set(names(reading)) <= {"Ada Lovelace", "Charles Babbage", "Analytical Engine"}


@pytest.mark.parametrize(
    ("text", "readable"),
    [
        ('{"entities": [], "relationships": []}', True),
        ("[]", True),
        ("<|COMPLETE|>", True),
        ("", False),
        ("There is nothing to extract.", False),
        ("still { not", False),
        ("{}", False),
        ('{"answer": 42}', False),
        ("<think>never ends", False),
    ],
)
def test_an_empty_reply_differs_from_an_unreadable_one(text: str, readable: bool) -> None:
    reading = read_extraction(text)
    assert reading.readable is readable
    assert not reading.entities


# --- records -------------------------------------------------------------------------------------


def test_each_record_is_judged_alone() -> None:
    reading = reply(
        {"name": "Ada Lovelace"},
        {"type": "Person", "description": "no name"},
        {"name": "Charles Babbage", "description": "Inventor"},
        None,
        7,
        relations=[
            {"source": "Ada Lovelace", "target": "Charles Babbage"},
            {"source": "Ada Lovelace"},
        ],
    )
    assert names(reading) == ["Ada Lovelace", "Charles Babbage"]
    assert pairs(reading) == [("Ada Lovelace", "Charles Babbage")]
    assert reading.relations[0].strength == 1.0
    assert reading.dropped.total() == 4


def test_wrong_types_are_made_the_best_of() -> None:
    reading = reply(
        {"name": ["Ada"], "type": 7, "description": ["One.", "Two."], "aliases": "Countess; AAL"},
        {"name": "Bob", "type": {"a": 1}, "description": None, "aliases": [1, None, "Bobby"]},
        relations=[
            {"source": "Ada", "target": "Bob", "keywords": ["a b", 3, None], "strength": "8/10"},
            {"source": "Ada", "target": "Bob", "description": {"x": 1}, "strength": True},
            {"source": "Bob", "target": "Ada", "keywords": 9, "strength": 1e400},
            {"source": "Bob", "target": "Ada", "strength": -3},
        ],
    )
    assert reading.entities[0].description == "One. Two."
    assert reading.entities[0].aliases == ("Countess", "AAL")
    assert reading.entities[1].aliases == ("Bobby",)
    assert [relation.strength for relation in reading.relations] == [8.0, 1.0, 1.0, 0.0]
    assert reading.relations[0].keywords == ("a b", "3")


def test_an_end_that_was_not_listed_becomes_an_entity_without_a_type() -> None:
    reading = reply(ADA, relations=[WORKED])
    assert names(reading) == ["Ada Lovelace", "Charles Babbage"]
    assert (reading.entities[1].kind, reading.entities[1].description) == ("", "")


def test_an_end_given_by_alias_or_spelling_is_the_listed_entity() -> None:
    who = {"name": "World Health Organization", "type": "organization", "aliases": ["WHO"]}
    reading = reply(
        who, ADA, relations=[{"source": "WHO", "target": "ADA  lovelace", "description": "d"}]
    )
    assert pairs(reading) == [("World Health Organization", "Ada Lovelace")]
    assert len(reading.entities) == 2


def test_self_loops_are_dropped() -> None:
    loop = {"source": "Ada Lovelace", "target": "ada lovelace ", "description": "d"}
    reading = reply(ADA, relations=[loop])
    assert not reading.relations
    assert reading.dropped == {"self loop": 1}


def test_a_model_in_a_loop_is_bounded() -> None:
    again = reply(*[ADA] * 5000)
    assert names(again) == ["Ada Lovelace"]
    many = reply(*({"name": f"Thing x{i}y"} for i in range(5000)))
    assert len(many.entities) == 400
    assert many.dropped["too many"] == 4600


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "The engine... wait, actually the text says Difference Engine. No, re-reading: Analytical "
        "Engine, so I should output that\ninstead of the former",
        'def f(x):\n    return {"a": [1, 2]}',
        "\\frac{\\partial L}{\\partial w}",
        "x" * 300,
        "Ada wrote the notes. She then sent them to Charles Babbage, who was pleased.",
        "2023-04-02", "404", "1.10", "12:30", "50 %", "2 April 2023", "April 2023", "the 1990s",
        "2023年4月2日", "May 3rd, 1999", "", "  ", "—", "N/A", "None", "unknown", "<entity_name>",
        "\x00\x01",
    ],
)  # fmt: skip
def test_what_is_no_name_is_counted_and_harms_nothing_else(name: str) -> None:
    reading = reply(ADA, {"name": name, "type": "Thing"}, BABBAGE)
    assert names(reading) == ["Ada Lovelace", "Charles Babbage"]
    assert reading.dropped.total() == 1


@pytest.mark.parametrize(
    "name",
    [
        "<SEP>", "C++", "AT&T", "曹操", "Yahoo!", "3M", "COVID-19", "B.1.1.7", "List<String>",
        "fetch()", "St. John's", "Wait Wait... Don't Tell Me!", "Boeing 747", "F. Scott Fitzgerald",
        "The Lion, the Witch and the Wardrobe", "Operation: Dulce", "Mr. Scrooge",
        "Caroline (wife of Scrooge's debtor)", "May", "iPhone 15", "O'Brien",
        "Who Framed Roger Rabbit?",
        "<|endoftext|>", "Москва", "Apollo 11", "¿Qué pasa?", "Rock 'n' Roll", "no", "E = mc²",
    ],
)  # fmt: skip
def test_real_names_are_kept_as_written(name: str) -> None:
    reading = reply({"name": name, "type": "thing", "description": "d"})
    assert names(reading) == [name]


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (' "Ada Lovelace" ', "Ada Lovelace"),
        ("**Ada Lovelace**", "Ada Lovelace"),
        ("“Ada Lovelace”", "Ada Lovelace"),
        ("Ada\x00 Love\x1flace", "Ada Lovelace"),
        ("Ada \n Lovelace", "Ada Lovelace"),
        ("Ada Lovelace,", "Ada Lovelace"),
        ("Ada<|#|>person", "Ada"),
        ('""Caroline (a wife)"', "Caroline (a wife)"),
    ],
)
def test_decoration_around_a_name_is_taken_off(raw: str, name: str) -> None:
    assert names(reply({"name": raw, "type": "person"})) == [name]


def test_a_work_may_be_called_by_a_number() -> None:
    assert names(reply({"name": "1984", "type": "work", "description": "A novel."})) == ["1984"]


def test_a_relation_with_a_rejected_end_is_dropped() -> None:
    reading = reply(ADA, relations=[{"source": "Ada Lovelace", "target": "2023-04-02"}])
    assert not reading.relations
    assert reading.dropped == {"relation end: date or number": 1}


def test_marks_in_json_text_are_text() -> None:
    reading = reply(
        {"name": "<SEP>", "type": "Concept", "description": "Splits descriptions<SEP>and text."},
        {"name": "Ada Lovelace", "type": "Person", "description": "Never used <|#|>."},
    )
    assert names(reading) == ["<SEP>", "Ada Lovelace"]
    assert reading.entities[0].description == "Splits descriptions<SEP>and text."
    assert reading.entities[1].description == "Never used <|#|>."


# --- line formats --------------------------------------------------------------------------------


def test_the_line_format_with_damaged_separators_is_read() -> None:
    reading = read_extraction(
        "entity<|#|>Ada Lovelace<|#|>Person<|#|>Wrote notes.\n"
        "entity<|#>Charles Babbage<#|>Person<||>Inventor.\n"
        '("entity"<|#|>"Analytical Engine"<|#|>"Artifact"<|#|>"Mechanical computer."\n'
        '（"relation"<|#|>"Ada Lovelace"<|#|>"Charles Babbage"'
        '<|#|>"collaboration"<|#|>"They worked."）\n'
        "relation<|#|>Charles Babbage<|#|>Analytical Engine\n"
        "- **entity**＜|#|＞Luigi Menabrea＜|#|＞Person＜|#|＞Engineer.\n"
        "Mary Somerville<|#|>Person<|#|>Taught Ada.\n"
        "entity<|#|>\n"
        "<|COMPLETE|>"
    )
    assert names(reading) == [
        "Ada Lovelace", "Charles Babbage", "Analytical Engine", "Luigi Menabrea", "Mary Somerville",
    ]  # fmt: skip
    assert pairs(reading) == [
        ("Ada Lovelace", "Charles Babbage"),
        ("Charles Babbage", "Analytical Engine"),
    ]
    assert reading.entities[1].kind == "person"
    assert reading.relations[0].keywords == ("collaboration",)
    assert reading.dropped.total() == 1
    for value in (*names(reading), *(entity.kind for entity in reading.entities)):
        assert not any(mark in value for mark in ("<|", "|>", "#|", "（", "entity("))


def test_the_older_line_format_is_read() -> None:
    reading = read_extraction(
        '("entity"<|>"SCROOGE"<|>"person"<|>"A miser (at first).")##\n'
        '("entity"<|>""Caroline (a wife)"<|>"person"<|>"Indebted.")## '
        '("entity"<|>"BOB"<|>"person"<|>"C")\n'
        '("relationship"<|>"SCROOGE"<|>"BOB"<|>"Employs him."|>9)##\n'
        '("relationship"<|>"BOB"<|>"CAROLINE"<|>"Neighbours."<|>"debt, street"<|>7.5)<|COMPLETE|>'
    )
    assert names(reading)[:3] == ["SCROOGE", "Caroline (a wife)", "BOB"]
    assert reading.entities[0].description == "A miser (at first)."
    assert [relation.strength for relation in reading.relations] == [9.0, 7.5]
    assert reading.relations[0].description == "Employs him."
    assert reading.relations[1].keywords == ("debt", "street")


def test_a_line_reply_cut_at_its_limit_loses_only_its_last_line() -> None:
    text = "entity<|#|>Ada<|#|>person<|#|>Wrote.\nentity<|#|>Charles Bab<|#|>per"
    assert names(read_extraction(text, cut=True)) == ["Ada"]
    assert len(read_extraction(text).entities) == 2


def test_separators_within_a_description_stay() -> None:
    reading = read_extraction(
        "entity<|#|>Mark<|#|>concept<|#|>It is <|#|> and splits.\n<|COMPLETE|>"
    )
    assert reading.entities[0].description == "It is <|#|> and splits."


# --- never a crash, never slow -------------------------------------------------------------------

SEEDS = [
    JSON, f"```json\n{JSON}\n```", repr(WHOLE),
    "entity<|#|>Ada<|#|>person<|#|>Wrote.\n"
    "relation<|#|>Ada<|#|>Bob<|#|>met<|#|>They met.\n<|COMPLETE|>",
    '("entity"<|>"A B"<|>"person"<|>"x")##("relationship"<|>"A B"<|>"C D"<|>"y"<|>9)##',
]  # fmt: skip
PIECES = st.sampled_from(
    [*'{}[]",:<>|#\\\n\'“”（）', "<|#|>", "<|>", "##", "null", "NaN", "\\u12", "<think>", "```",
     "\x00", "\ud800", "entity", '"name":', '{"entities":[', "// ", "/*"]
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(0, 8))):
        place = draw(st.integers(0, len(text)))
        removed = draw(st.integers(0, 12))
        text = text[:place] + draw(PIECES) + text[place + removed :]
    return text


@given(text=mutated(), cut=st.booleans())
def test_no_damage_crashes_the_reader_or_leaves_bad_names(text: str, cut: bool) -> None:
    reading = read_extraction(text, cut=cut)
    for entity in reading.entities:
        assert 0 < len(entity.name) <= 200
        assert not set(entity.name) & set("\x00\n\t\ud800")
        assert "<|#|>" not in entity.name
    listed = {entity.name for entity in reading.entities}
    for relation in reading.relations:
        assert relation.source != relation.target
        assert {relation.source, relation.target} <= listed
        assert 0 <= relation.strength <= 10
    read_keywords(text)
    read_text(text)


@given(st.text(max_size=300))
def test_any_text_at_all_is_survived(text: str) -> None:
    read_extraction(text)
    read_extraction("{" + text)
    read_keywords(text)
    read_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000, "{" * 200_000, '{"a":' * 40_000, '{"a":' + '"' * 200_000, "'" * 200_000,
        '{"entities": [' + '{"name": "A' * 20_000, "\\" * 200_000, '{"a":"' + "\\" * 200_000,
        "entity<|#|>" * 20_000, "<" * 200_000, "|" * 200_000, "(" * 200_000, " " * 400_000,
        "{" + " " * 400_000, "//" * 100_000, "{" + "//" * 100_000, "{/*" + "*" * 200_000,
        "<think></think>" * 10_000, "<think>" * 20_000, '{"entities":[' + "," * 200_000,
        '{"entities":[{"name":"' + 'a", "' * 40_000, "{" + "a " * 100_000, "[" + "a " * 100_000,
        " " * 400_000 + "x", "entity" + " " * 400_000 + "x",
        "##" * 100_000, "entity " * 40_000, "{" + "a:" * 100_000, '[1,"x\n' * 40_000,
    ],
    ids=range(29),
)  # fmt: skip
def test_hostile_replies_take_linear_time(text: str) -> None:
    # A quadratic step would take minutes here; the suite's own limit would end it.
    read_extraction(text)
    read_keywords(text)
    read_text(text)


# --- keywords and prose --------------------------------------------------------------------------


def test_keywords_are_those_of_the_final_object() -> None:
    found = read_keywords(
        '<think>maybe {"high_level_keywords":["Draft"],"low_level_keywords":["Draft"]}</think>\n'
        '{"high_level_keywords":["collaboration"],"low_level_keywords":["Charles Babbage"]}'
    )
    assert found is not None
    assert (found.low, found.high) == (("Charles Babbage",), ("collaboration",))


@pytest.mark.parametrize(
    "text",
    [
        '[{"low_level_keywords": "Ada, Babbage", "high_level_keywords": "work"}]',
        '```json\n{"Low-Level Keywords": ["Ada", "Babbage"], "high": ["work"]}\n```',
        '{"high_level_keywords": ["work"], "low_level_keywords": ["Ada", "Babbage"',
    ],
)
def test_keywords_are_read_in_other_shapes(text: str) -> None:
    found = read_keywords(text)
    assert found is not None
    assert (found.low, found.high) == (("Ada", "Babbage"), ("work",))


@pytest.mark.parametrize(
    "text",
    [
        "```python\nimport nltk\nprint(extract({'high': [], 'low': []}))\n```",
        '{"high_level_keywords": [], "low_level_keywords": []}',
        "Ada, Babbage", "", "{", "[]",
    ],
)  # fmt: skip
def test_a_keyword_reply_without_keywords_is_none(text: str) -> None:
    assert read_keywords(text) is None


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("<think>a</think>They print <think>x</think>.", "They print <think>x</think>."),
        ("<thinking>a</thinking>\n<think>b</think>\nYes.", "Yes."),
        ("Models print <think>x</think> first.", "Models print <think>x</think> first."),
        ("hm, so </think>\n\nYes.", "Yes."),
        ("<think>only thoughts", ""),
        ("```markdown\nYes.\n```", "Yes."),
        ("Use `a` and ```b```.", "Use `a` and ```b```."),
    ],
)  # fmt: skip
def test_only_reasoning_at_the_start_of_prose_is_removed(said: str, text: str) -> None:
    assert read_text(said) == text
