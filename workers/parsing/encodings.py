"""Bytes to text, whatever the encoding. All of it is linear, so it may run outside the child."""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

from workers.parsing import scripts
from workers.parsing.refusals import refusal

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE = 1 << 16
_CONTROLS = bytes(set(range(1, 32)) - {8, 9, 10, 11, 12, 13, 26, 27})
# What browsers read instead (WHATWG encoding standard): supersets that occur far more often.
_WIDER = {
    "iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "gb2312": "gb18030",
    "gbk": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949",
}  # fmt: skip


_CONTROL_CHARACTERS = re.compile("[\x01-\x07\x0e-\x19\x1c-\x1f]")


class Decoded(NamedTuple):
    text: str
    warning: str = ""


def decode(data: bytes, *, hint: str = "") -> Decoded:
    """`hint` is the encoding that the file claims for itself.

    Raises `Unparsable` with code `binary`.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _decoded(data[len(mark) :], encoding)
    if wide := _wide(data[: _SAMPLE & ~3], len(data)):
        return _decoded(data, wide)
    controls = len(data) - len(data.translate(None, _CONTROLS))
    if _binary(data.count(0), controls, len(data)):
        raise refusal("binary")
    try:
        return Decoded(data.decode("utf-8"))
    except UnicodeDecodeError:
        pass
    if hint and (told := _as_told(data, hint)) is not None:
        return Decoded(told)
    sample = _sample(data)
    if _mostly_utf8(sample):
        return _decoded(data, "utf-8")
    encoding = scripts.likeliest(sample)
    decoded = _decoded(data, encoding)
    return Decoded(decoded.text, decoded.warning or f"The encoding was guessed: {encoding}.")


def _decoded(data: bytes, encoding: str) -> Decoded:
    text = data.decode(encoding, "replace")
    lost = text.count("\ufffd")
    controls = len(_CONTROL_CHARACTERS.findall(text))
    if lost * 5 > len(text) or _binary(text.count("\0"), controls, len(text)):
        raise refusal("binary")
    return Decoded(text, f"Some bytes are not valid {encoding} and were replaced." if lost else "")


def _binary(nuls: int, controls: int, size: int) -> bool:
    """Texts hold hardly any control characters, but programs in C leave NULs behind their words."""
    return controls * 50 > size or nuls * 5 > size


def _as_told(data: bytes, hint: str) -> str | None:
    try:
        encoding = codecs.lookup(hint).name
        return data.decode(_WIDER.get(encoding, encoding))
    except (LookupError, UnicodeDecodeError, TypeError, ValueError):
        return None


def _sample(data: bytes) -> bytes:
    """Whole lines around the first byte beyond ASCII, so that no character is cut."""
    high = re.search(rb"[\x80-\xff]", data)
    at = high.start() if high else 0
    start = data.rfind(b"\n", 0, at) + 1 if at > _SAMPLE // 2 else 0
    start = max(start, at - _SAMPLE // 2)
    sample = data[start : start + _SAMPLE]
    if start + _SAMPLE < len(data):
        sample = sample[: sample.rfind(b"\n") + 1] or sample
    return sample


def _mostly_utf8(sample: bytes) -> bool:
    """A few broken bytes in what is otherwise UTF-8, such as a cut at the end."""
    text = sample.decode("utf-8", "replace")
    lost = text.count("\ufffd")
    whole = sum(ord(char) > 127 for char in text) - lost
    return whole > 0 and lost <= 1 + whole // 20


def _wide(sample: bytes, size: int) -> str:
    """UTF-16 or UTF-32 without a mark, told by where the zeros are; "" if it is neither."""
    if len(sample) < 4 or b"\0" not in sample:
        return ""
    zeros = [sample[i::4].count(0) / max(len(sample[i::4]), 1) for i in range(4)]
    if zeros[3] > 0.95 and zeros[2] > 0.7 and zeros[0] < 0.3:
        return "utf-32-le"
    if zeros[0] > 0.95 and zeros[1] > 0.7 and zeros[3] < 0.3:
        return "utf-32-be"
    even, odd = (zeros[0] + zeros[2]) / 2, (zeros[1] + zeros[3]) / 2
    if odd > 0.3 and even < 0.05:
        return "utf-16-le"
    if even > 0.3 and odd < 0.05:
        return "utf-16-be"
    if size % 2:
        return ""
    # Few zeros: Chinese, say, where only line feeds and digits have them. Both orders decode
    # without error, but only one gives characters in use.
    little, big = (_in_use(sample, order) for order in ("utf-16-le", "utf-16-be"))
    if max(little, big) < 0.95:
        return ""
    return "utf-16-le" if little >= big else "utf-16-be"


_USED = re.compile(
    "[\t\n\r -~\u00a0-\u024f\u0370-\u06ff\u0900-\u0e7f\u2010-\u203b\u3000-\u30ff"
    "\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff9f]"
)


def _in_use(sample: bytes, encoding: str) -> float:
    text = sample[: len(sample) & ~1].decode(encoding, "replace")
    return len(_USED.findall(text)) / max(len(text), 1)
