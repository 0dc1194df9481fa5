"""The fixed sentences of the built-in answerer, in the language of the question."""

from __future__ import annotations

import re
from dataclasses import dataclass

from app import words

_HAN = re.compile("[\u4e00-\u9fff]")
_KANA = re.compile("[\u3040-\u30ff]")
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Wording:
    """`passages` opens an answer, `evidence` one to a yes/no question."""

    passages: str
    evidence: str
    pronouns: frozenset[str] = frozenset()


_WORDINGS = {
    "en": Wording(
        "These are passages from your documents, not a written answer:",
        "The documents say (passages, not a verdict):",
        frozenset(
            [
                "he",
                "she",
                "it",
                "they",
                "his",
                "her",
                "its",
                "their",
                "this",
                "these",
                "that",
                "those",
                "him",
                "them",
            ]
        ),
    ),
    "de": Wording(
        "Das sind Stellen aus Ihren Dokumenten, keine ausformulierte Antwort:",
        "In den Dokumenten steht (Fundstellen, kein Urteil):",
        frozenset(["er", "sie", "es", "ihr", "ihre", "sein", "seine", "dieser", "diese", "dieses"]),
    ),
    "fr": Wording(
        "Voici des passages de vos documents, non une réponse rédigée :",
        "Les documents disent (extraits, sans verdict) :",
        frozenset(
            ["il", "elle", "ils", "elles", "ce", "cet", "cette", "ces", "son", "sa", "ses", "leur"]
        ),
    ),
    "es": Wording(
        "Estos son pasajes de sus documentos, no una respuesta redactada:",
        "Los documentos dicen (pasajes, no un veredicto):",
        frozenset(["él", "ella", "ellos", "ellas", "este", "esta", "esto", "su", "sus"]),
    ),
    "it": Wording(
        "Questi sono passi dei suoi documenti, non una risposta scritta:",
        "I documenti dicono (passi, non un verdetto):",
        frozenset(
            ["egli", "ella", "lui", "lei", "essi", "esse", "questo", "questa", "suo", "sua", "loro"]
        ),
    ),
    "pt": Wording(
        "Estas são passagens dos seus documentos, não uma resposta redigida:",
        "Os documentos dizem (passagens, não um veredito):",
        frozenset(
            ["ele", "ela", "eles", "elas", "este", "esta", "isto", "seu", "sua", "seus", "suas"]
        ),
    ),
    "nl": Wording(
        "Dit zijn passages uit uw documenten, geen geschreven antwoord:",
        "In de documenten staat (passages, geen oordeel):",
        frozenset(["hij", "zij", "ze", "het", "deze", "dit", "zijn", "haar", "hun"]),
    ),
    "zh": Wording(
        "以下是您的文档中的原文段落，并非撰写的答案：",
        "文档中的相关内容（仅为原文，不作判断）：",
        frozenset(("他", "她", "它", "他们", "她们", "它们", "其", "这", "该")),
    ),
    "ja": Wording(
        "以下はお手元の文書からの抜粋であり、作成された回答ではありません：",
        "文書には次の記述があります（抜粋であり、判断ではありません）：",
        frozenset(("彼", "彼女", "それ", "これ", "その", "この")),
    ),
}
_NAMES = {
    "english": "en", "german": "de", "deutsch": "de", "french": "fr", "français": "fr",
    "spanish": "es", "español": "es", "italian": "it", "portuguese": "pt", "dutch": "nl",
    "chinese": "zh", "中文": "zh", "japanese": "ja", "日本語": "ja",
}  # fmt: skip


def wording(question: str, language: str = "") -> Wording:
    """By the language asked for (`de`, `de-AT`, `German`), else by that of the question."""
    asked = language.strip().lower()
    code = _NAMES.get(asked, re.split(r"[-_]", asked)[0])
    return _WORDINGS.get(code) or _WORDINGS[question_language(question)]


def question_language(question: str) -> str:
    """Language of a question by script and stop words; English in doubt."""
    if _KANA.search(question):
        return "ja"
    if _HAN.search(question):
        return "zh"
    asked = [word.lower() for word in _WORD.findall(question)]
    counts = {
        language: sum(word in listed for word in asked)
        + any(w in _ASKERS.get(language, ()) for w in asked)
        for language, listed in words.stop_words().items()
    }
    return max(counts, key=lambda language: (counts[language], language == "en"))


_ASKERS = {
    "de": ("wer", "was", "wann", "warum", "welche", "welcher", "welches", "wie", "wo", "wieviel"),
    "fr": ("qui", "quel", "quelle", "quels", "quand", "pourquoi", "comment", "combien", "où"),
    "es": ("quién", "qué", "cuál", "cuándo", "dónde", "cómo", "cuántos", "cuántas"),
    "it": ("chi", "cosa", "quale", "quando", "dove", "come", "perché", "quanti"),
    "pt": ("quem", "qual", "quais", "quando", "onde", "como", "quantos", "porquê"),
    "nl": ("wie", "wat", "wanneer", "waarom", "welke", "hoe", "waar", "hoeveel"),
}
