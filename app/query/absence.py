"""Saying that nothing was found, in the question's language."""

from __future__ import annotations

import re

from app.domain import Question
from app.words import stop_words

SENTENCES = {
    "en": "I found nothing in the documents that answers this question.",
    "de": "In den Dokumenten habe ich nichts gefunden, was diese Frage beantwortet.",
    "fr": "Je n'ai rien trouvé dans les documents qui réponde à cette question.",
    "es": "No he encontrado nada en los documentos que responda a esta pregunta.",
    "it": "Nei documenti non ho trovato nulla che risponda a questa domanda.",
    "pt": "Não encontrei nada nos documentos que responda a esta pergunta.",
    "nl": "Ik heb in de documenten niets gevonden dat deze vraag beantwoordt.",
    "ru": "В документах не найдено ничего, что отвечало бы на этот вопрос.",
    "zh": "在文档中没有找到可以回答这个问题的内容。",
    "ja": "この質問に答える内容は文書の中に見つかりませんでした。",
    "ko": "문서에서 이 질문에 답하는 내용을 찾지 못했습니다.",
    "ar": "لم أجد في المستندات ما يجيب عن هذا السؤال.",
}
NAMES = {
    "english": "en", "german": "de", "deutsch": "de", "french": "fr", "français": "fr",
    "spanish": "es", "español": "es", "italian": "it", "italiano": "it", "portuguese": "pt",
    "português": "pt", "dutch": "nl", "nederlands": "nl", "russian": "ru", "русский": "ru",
    "chinese": "zh", "中文": "zh", "japanese": "ja", "日本語": "ja", "korean": "ko",
    "한국어": "ko", "arabic": "ar", "العربية": "ar",
}  # fmt: skip
SCRIPTS = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("ko", re.compile("[\uac00-\ud7af]")),
    ("zh", re.compile("[\u3400-\u9fff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
    ("ar", re.compile("[\u0600-\u06ff]")),
)
LEAST_SCRIPT = 0.25  # of the letters; a foreign name does not make a language


def nothing_found(question: Question) -> str:
    """In the language asked for, else in the question's own."""
    wanted = question.language.strip().lower()
    code = NAMES.get(wanted, re.split("[-_]", wanted)[0])
    return SENTENCES[code if code in SENTENCES else language_of(question.text)]


def language_of(text: str) -> str:
    """Language of a text by script and stop words; English if nothing tells another one."""
    words = re.findall(r"[^\W\d_]+", text.lower())
    letters = sum(map(len, words))
    for language, script in SCRIPTS:
        if letters and len(script.findall(text)) >= LEAST_SCRIPT * letters:
            return language
    counts = {
        language: sum(word in stops for word in words)
        for language, stops in stop_words().items()
        if language in SENTENCES
    }
    best = max(sorted(counts), key=lambda language: counts[language], default="en")
    return best if counts.get(best, 0) > counts.get("en", 0) else "en"
