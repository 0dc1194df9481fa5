from __future__ import annotations

import pytest

from app.domain import Question, Turn
from app.query.absence import SENTENCES, nothing_found
from app.query.keywords import standing_alone

HISTORY = (
    Turn("user", "Who directed The Silent Harbour?"),
    Turn("assistant", "Aino Korhonen."),
)


@pytest.mark.parametrize(
    "text",
    [
        "Where was she born?",
        "And when did he die?",
        "Why?",
        "What are its themes?",
        "她在哪里出生？",
    ],
)
def test_a_question_that_refers_back_is_read_after_the_last_turn(text: str) -> None:
    asked = standing_alone(Question(text, history=HISTORY))
    assert asked == f"Who directed The Silent Harbour?\n{text}"


@pytest.mark.parametrize(
    "text",
    [
        "Where was Aino Korhonen born?",
        "What happened to her in Kuusamo?",
        "Which lake is the largest in the north of the country?",
        "What were the effects of the treaty on trade?",
    ],
)
def test_a_question_with_names_of_its_own_stands_alone(text: str) -> None:
    assert standing_alone(Question(text, history=HISTORY)) == text


def test_without_history_nothing_is_added() -> None:
    assert standing_alone(Question("Where was she born?")) == "Where was she born?"
    only_assistant = (Turn("assistant", "Hello."),)
    assert standing_alone(Question("Why?", history=only_assistant)) == "Why?"


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Where was she born?", "", "en"),
        ("Wer hat die Brücke gebaut und wann war das?", "", "de"),
        ("Où est la gare et qui est le directeur ?", "", "fr"),
        ("¿Quién es el director de la película?", "", "es"),
        ("谁建了这座桥？", "", "zh"),
        ("橋を建てたのは誰ですか？", "", "ja"),
        ("다리를 누가 지었습니까?", "", "ko"),
        ("Кто построил мост?", "", "ru"),
        ("Where?", "German", "de"),
        ("Where?", "fr-CA", "fr"),
        ("Where?", "Klingon", "en"),
        ("", "", "en"),
    ],
)
def test_absence_is_told_in_the_questions_language(text: str, language: str, expected: str) -> None:
    question = Question(text, language=language)
    assert nothing_found(question) == SENTENCES[expected]
