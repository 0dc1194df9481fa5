"""Which legacy encoding a text is in, by how much the decoded text looks like some language.

Every candidate that decodes at all is scored: are its characters the ones in daily use, and do they
stand beside each other as they do in words? General detectors need far more text to tell, say,
GB 18030 from EUC-KR than the few lines that many files have.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# The commonest characters of each language: about a third of running text.
_HANZI = frozenset(
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量再感建务做接必场件计管期市直德资命山金指克许统区保至队形社便空决治展马科司五基眼书非则听白却界达光放强即像难且权思王象完设式色路记南品住告类求据程北边死张该交规万取拉格望觉术领共确传师观清今切院让识候带导争运"
)
_HANZI_TW = frozenset(
    "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡用道行所然家種事成方多經麼去法學如都同現當沒動面起看定天分還進好小部其些主樣理心她本前開但因只從想實日軍者意無力它與長把機十民第公此已工使情明性知全三又關點正業外將兩高間由問很最重並物手應戰向頭文體政美相見被利什二等產或新己制身果加西斯月話合回特代內信表化老給世位次度門任常先海通教兒原東聲提立及比員解水名真論處走義各入幾口認條平系氣題活爾更別打女變四神總何電數安少報才結反受目太量再感建務做接必場件計管期市直德資命山金指台灣北春花落夜風雨"
)
_HANGUL = frozenset(
    "이다는을의에가한로고지기사자하은를도서인대아나리어그시해있수일부정제전라보장으과게것주동들상원만여구공조우음세면와스성중요개비할모되관오국연경없실선위안신화무유간치생학계소미려내트분며년용물저교발민거당방진산서울등적명말영문양회통행식차운데때까되습니"
)
_ASCII_LETTER = re.compile("[A-Za-z]")
_FULLWIDTH = re.compile("[\u3000-\u303f\uff01-\uff5e\u2010-\u203b\u2460-\u2473\u2500-\u257f]")
_KANA = re.compile("[\u3041-\u30fe]")

_LATIN: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("cp1252", (
        "àâæçéèêëîïôœùûüÿ", "äöüß", "áéíñóúü", "áâãàçéêíóôõúü", "àèéìíîòóùú", "åäöæøéü",
        "ðþáéíóúýæö", "áéëïóöúèà",
    )),
    ("cp1250", (
        "ąćęłńóśźż", "áčďéěíňóřšťúůýžäľĺŕô", "áéíóöőúüű", "ăâîșțşţ", "čćđšž",
    )),
    ("cp1254", ("çğıİöşüâî",)),
    ("cp1257", ("ąčęėįšųūž", "āčēģīķļņšūž", "äõöüšž")),
)  # fmt: skip
# Encoding, its letters, the commonest ten or fifteen of them, and their share in running text.
_SCRIPTS: tuple[tuple[str, str, frozenset[str], float], ...] = (
    ("cp1251", "\u0400-\u045f", frozenset("оеаинтсрвл"), 0.62),
    ("koi8_r", "\u0400-\u045f", frozenset("оеаинтсрвл"), 0.62),
    ("cp1253", "\u0370-\u03ff", frozenset("αοιετσνηυρςάόίέ"), 0.8),
    ("cp1255", "\u05d0-\u05ea", frozenset("יוהלאמרתבש"), 0.66),
    ("cp1256", "\u0620-\u064a", frozenset("اليمونترب"), 0.6),
    ("cp874", "\u0e01-\u0e5b", frozenset("านรอกเงมยลวดทส่้"), 0.62),
)


def likeliest(sample: bytes) -> str:
    """Python's name of the encoding; windows-1252 where nothing fits."""
    scores = [(_wide_score(sample, name, weigh), name) for name, weigh in _WIDE.items()]
    scores += [(_latin_score(sample, name, alphabets), name) for name, alphabets in _LATIN]
    scores += [(_script_score(sample, *script), script[0]) for script in _SCRIPTS]
    best, name = max(scores, key=lambda score: score[0])  # the first of equals
    return name if best > 0.4 else "cp1252"


def _text(sample: bytes, encoding: str) -> str | None:
    """None if it cannot be; single-byte pages may leave a few bytes undefined."""
    text = sample.decode(encoding, "replace")
    lost = text.count("\ufffd")
    return None if lost > 1 or "\x80" <= max(text, default="") <= "\x9f" else text


# --- two bytes a character -----------------------------------------------------------------------


def _wide_score(sample: bytes, encoding: str, weigh: Callable[[str], float]) -> float:
    text = _text(sample, encoding)
    if text is None:
        return 0.0
    total = 0.0
    count = 0
    for before, char in zip(" " + text, text, strict=False):
        if char > "\x7f":
            count += 1
            total += weigh(char)
        # Western words seen through a two-byte code: rare signs amid Latin letters.
        elif before > "\u2e7f" and _ASCII_LETTER.match(char) and not _FULLWIDTH.match(before):
            total -= 0.3
    return total / max(count, 1)


def _chinese(char: str) -> float:
    if char in _HANZI:
        return 1.0
    if _FULLWIDTH.match(char):
        return 0.8
    if _KANA.match(char):
        return 0.2
    return 0.6 if _lead(char, "gb2312") < 0xD8 else 0.1


def _taiwanese(char: str) -> float:
    if char in _HANZI_TW:
        return 1.0
    if _FULLWIDTH.match(char):
        return 0.8
    return 0.6 if _lead(char, "big5") < 0xC7 and not _KANA.match(char) else 0.1


def _japanese(char: str) -> float:
    if _KANA.match(char):
        return 1.0
    if _FULLWIDTH.match(char):
        return 0.8
    if "\uff61" <= char <= "\uff9f":  # half-width kana: what other codes look like in Shift-JIS
        return 0.15
    return 0.65 if _lead(char, "euc_jp") < 0xD0 else 0.1


def _korean(char: str) -> float:
    if char in _HANGUL:
        return 1.0
    if "\uac00" <= char <= "\ud7a3":
        return 0.5 if _lead(char, "euc_kr") < 0xC9 else 0.1
    return 0.8 if _FULLWIDTH.match(char) else 0.1


def _lead(char: str, encoding: str) -> int:
    """First byte in the national standard, which sorts common characters first; 255 if absent."""
    try:
        return char.encode(encoding)[0]
    except UnicodeEncodeError:
        return 255


_WIDE = {
    "gb18030": _chinese,
    "big5": _taiwanese,
    "cp932": _japanese,
    "euc_jp": _japanese,
    "cp949": _korean,
}


# --- one byte a character ------------------------------------------------------------------------

_PUNCTUATION = frozenset("“”„‘’‚«»‹›–—…№°§€£ \u00a0،؛؟¿¡·")


def _latin_score(sample: bytes, encoding: str, alphabets: tuple[str, ...]) -> float:
    """Share of the letters beyond ASCII that belong to one language's alphabet."""
    text = _text(sample, encoding)
    if text is None:
        return 0.0
    letters = [char.lower() for char in text if char > "\x7f" and char.isalpha()]
    odd = len(_INSIDE.findall(text)) + sum(map(len, _STRANGE_RUN.findall(text)))
    if not letters:
        return 0.5 - odd  # only quotes, dashes and signs: any page will do
    single = max(sum(char in alphabet for char in letters) for alphabet in alphabets)
    mixed = sum(any(char in alphabet for alphabet in alphabets) for char in letters)
    return (max(single, 0.9 * mixed) - odd) / len(letters)


# Signs within words, and capitals behind small letters, do not occur in running text.
_INSIDE = re.compile("(?<=[a-z])[¡-©«-´¶-¿×÷ˇ˘˙˛˝](?=[a-z])|(?<=[a-zà-ÿ])[À-ÞĄĆĘŁŃŚŹŻ](?=[a-z])")


# Latin words are ASCII for the most part: three other characters in a row are another script.
_STRANGE_RUN = re.compile("[¡-ž]{3,}")


def _script_score(
    sample: bytes, encoding: str, letters: str, common: frozenset[str], share: float
) -> float:
    """Half for being letters of the script in words of their own, half for their frequencies."""
    text = _text(sample, encoding)
    if text is None:
        return 0.0
    beyond = [char for char in text if char > "\x7f" and char not in _PUNCTUATION]
    own = re.findall(f"[{letters}]", text)
    if not own or not beyond:
        return 0.0
    mixed = len(re.findall(f"[A-Za-z][{letters}]|[{letters}][A-Za-z]", text))
    capitals = len(re.findall(f"(?<=[{letters}])[А-ЯΑ-Ω]", text))
    used = sum(char in common for char in own) / len(own)
    whole = (len(own) - mixed - capitals) / len(beyond)
    score = 0.5 * whole + 0.5 * min(1.0, used / share)
    # Thai puts no blanks between words.
    runs = re.findall(f"[{letters}]+", text)
    return score * 0.6 if encoding == "cp874" and len(own) < 8 * len(runs) else score
