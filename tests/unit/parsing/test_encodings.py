from __future__ import annotations

import pytest

from app.errors import Unparsable
from tests.unit.parsing.made import parsed

SAMPLES = [
    ("gb18030", "中国制造的领军者3名；马兴瑞，中国航天科技集团公司总经理。"),
    ("gb18030", "刘备见了曹操。"),
    ("big5", "春眠不覺曉，處處聞啼鳥。夜來風雨聲，花落知多少。"),
    ("cp932", "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。"),
    ("euc_jp", "東京タワーへ行きました。"),
    ("cp949", "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다."),
    ("cp1252", "L'été était très chaud cette année. J'ai acheté un café."),
    ("cp1252", "Die schöne Frau hat einen Kaffee gegessen – 15,50 €."),
    ("cp1252", "El niño comió paella con ñoquis. La señora dijo: “¡Qué rico!”"),
    ("cp1250", "Příliš žluťoučký kůň úpěl ďábelské ódy."),
    ("cp1250", "Zażółć gęślą jaźń. Łódź jest miastem w Polsce."),
    ("cp1251", "Все люди рождаются свободными и равными в своем достоинстве и правах."),
    ("koi8_r", "Все люди рождаются свободными и равными в своем достоинстве и правах."),
    ("cp1253", "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια."),
    ("cp1254", "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar."),
    ("cp1255", "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם."),
    ("cp1256", "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق."),
    ("utf-16-le", "Plain English without a mark, in two bytes each."),
    ("utf-16-be", "Plain English without a mark, in two bytes each."),
    ("utf-16-le", "第一章\n刘备见了曹操。 3 人\n第二章\n"),
    ("utf-16-be", "第一章\n刘备见了曹操。 3 人\n第二章\n"),
    ("utf-32-le", "Four bytes each."),
    ("utf-8-sig", "Grüße"),
    ("utf-16", "Grüße 你好"),
    ("utf-8", "Grüße, 你好, здравствуй, 👨‍👩‍👧"),
]


@pytest.mark.parametrize(("encoding", "text"), SAMPLES)
async def test_a_short_text_is_read_in_whatever_encoding_it_is(encoding: str, text: str) -> None:
    assert (await parsed(text.encode(encoding))).text == text


async def test_a_guessed_encoding_is_reported() -> None:
    [warning] = (await parsed("Все люди рождаются свободными".encode("cp1251"))).warnings
    assert "cp1251" in warning


async def test_a_few_broken_bytes_do_not_turn_utf_8_into_something_else() -> None:
    data = ("Grüße aus Köln und Düsseldorf. " * 40).encode()[:-3] + b"\xc3"
    result = await parsed(data)
    assert result.text.startswith("Grüße aus Köln")
    assert "replaced" in result.warnings[0]


async def test_line_ends_become_line_feeds_and_controls_disappear() -> None:
    data = b"one\r\ntwo\rthree\x00\x01\x0cfour\xc2\x85five\xe2\x80\xa8six co\xc2\xadop"
    assert (await parsed(data + b" filler" * 40)).text.startswith(
        "one\ntwo\nthree\nfour\nfive\nsix coop"
    )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
async def test_nuls_between_words_are_left_out(encoding: str) -> None:
    text = "Ada Lovelace\0 worked with\0 Charles Babbage.\0\0 Café."
    assert (await parsed(text.encode(encoding))).text == text.replace("\0", "")


@pytest.mark.parametrize(
    "data", [b"MAGIC" + bytes(40), bytes(range(256)) * 8, b"\x00\x01\x02\x03" * 400]
)
async def test_binary_data_sent_as_text_is_refused(data: bytes) -> None:
    with pytest.raises(Unparsable) as caught:
        await parsed(data)
    assert caught.value.code == "binary"


@pytest.mark.parametrize(
    "data", [b"", b" \n\t \r\n", "\u200b\ufeff\u3000\n".encode(), b"\xef\xbb\xbf"]
)
async def test_a_text_that_shows_nothing_is_empty(data: bytes) -> None:
    with pytest.raises(Unparsable) as caught:
        await parsed(data)
    assert caught.value.code == "empty"
