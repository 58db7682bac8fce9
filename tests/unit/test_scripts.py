"""Estimates of tokens by script: between what three tokenizers count, and never above their bound."""

# ruff: noqa: RUF001 - the sentences are in many scripts

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiond.dialects.native.dialect import NATIVE
from sessiond.lsp.features.hints import estimate
from sessiond.scripts import quarters, quarters_at_most
from sessiond.session.context.tokens import CHARACTERS
from tests.kit.lines import parsed

# Sentences, and the least and most tokens of cl100k, o200k and the first tokenizer of Claude.
SENTENCES = [
    (
        "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。我们发现了一个严重的内存泄漏问题，需要检查订单服务的缓存。",
        53,
        77,
    ),
    (
        "データベースの接続プールが枯渇してタイムアウトしました。人間は、理性と良心とを授けられており、互いに同胞の精神をもって行動しなければならない。",
        57,
        75,
    ),
    (
        "심각한 메모리 누수 문제를 발견했고 주문 서비스의 캐시를 확인해야 합니다. 모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
        45,
        89,
    ),
    ("เราพบปัญหาหน่วยความจำรั่วอย่างรุนแรง และต้องตรวจสอบแคชของบริการสั่งซื้อ", 28, 124),
    ("មនុស្សទាំងអស់កើតមកមានសេរីភាព និងសមភាពក្នុងផ្នែកសេចក្ដីថ្លៃថ្នូរ និងសិទ្ធិ។", 44, 218),
    ("လူတိုင်းသည် တူညီလွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့်လည်းကောင်း မွေးဖွားလာသူများ ဖြစ်သည်။", 42, 153),
    ("सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।", 25, 93),
    ("وجدنا تسرباً خطيراً في الذاكرة ويجب فحص ذاكرة التخزين المؤقت لخدمة الطلبات.", 26, 70),
    ("מצאנו דליפת זיכרון חמורה וצריך לבדוק את המטמון של שירות ההזמנות.", 24, 62),
    ("Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.", 31, 85),
    ("Мы нашли серьёзную утечку памяти, и нужно проверить кэш службы заказов.", 19, 39),
    ("Chúng tôi đã tìm thấy một lỗi rò rỉ bộ nhớ nghiêm trọng trong dịch vụ đặt hàng.", 23, 58),
    ("Wir haben ein ernstes Speicherleck gefunden und müssen den Zwischenspeicher prüfen.", 18, 26),
]


@pytest.mark.parametrize(("text", "least", "most"), SENTENCES)
def test_an_estimate_is_between_what_tokenizers_count(text: str, least: int, most: int) -> None:
    message = {"role": "user", "content": text}
    tokens = CHARACTERS.message(parsed(NATIVE, message))
    assert least <= tokens <= most
    assert estimate(message) == tokens, "the editor says what the daemon says"


def test_a_chinese_text_has_about_a_token_for_each_character() -> None:
    text = "我们发现了一个严重的内存泄漏问题，需要检查订单服务的缓存。" * 300
    assert len(text) == 8_700
    assert 6_000 <= quarters(text) // 4 <= 9_000


@given(text=st.text())
def test_no_text_has_more_tokens_than_its_bytes_allow(text: str) -> None:
    assert quarters(text) <= quarters_at_most(len(text.encode()))


@given(text=st.text(), more=st.text())
def test_the_tokens_of_two_texts_are_those_of_both(text: str, more: str) -> None:
    assert quarters(text + more) == quarters(text) + quarters(more)
