"""Whether a text asks, and which of its sentences do."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SENTENCE = re.compile(r"(?:[^.!?。！？؟\n]|[.!?](?=\w))+[.!?。！？؟]*[\"'”’»)\]]*")
_MARK = re.compile(r"[?？؟]")
_AUXILIARY = (
    "(?:is|are|am|was|were|do|does|did|can|could|will|would|should|shall|has|have|had"
    "|isn't|aren't|don't|doesn't|didn't)"
)
_LEAD = r"(?:\W*(?:so|and|but|ok|okay|well|hey|hi|hello|then|also|please|sorry|now)\b\W*)?"
_NO_SUBJECT = r"(?!(?:i|you|we|he|she|it|they|my|your|our|the|a|this|that)\b)"  # "when I was young" asks nothing
_ASKS = re.compile(
    rf"{_LEAD}(?:(?:what|who|whose|whom|where|when|which|why|how)(?:['’]s\b|(?:\W+{_NO_SUBJECT}\w+){{0,3}}?\W+{_AUXILIARY}\b)"
    rf"|{_AUXILIARY}\s+(?:i|you|we|he|she|it|they|my|your|our|the|there)\b)",
    re.IGNORECASE,
)
_KIND = re.compile(
    rf"\b(?:which|what)\s+(?:(?:kind|sort|type)s?\s+of\s+)?(?!{_AUXILIARY}\b)(?P<kind>\w+)", re.IGNORECASE
)
_WANTS_TO_KNOW = re.compile(
    rf"{_LEAD}(?:(?:can|could|would|will) you\s+)?(?:please\s+)?"
    r"(?:(?:tell|show) me|remind me (?:what|who|whose|where|when|which|why|how|of|about|my)"
    r"|list|find|recall|search|summari[sz]e|repeat|quote|(?:what|how) about)\b",
    re.IGNORECASE,
)
DENSE_ASKING_WORDS = re.compile(
    r"什么|什麼|甚麼|谁|誰|哪[里裡儿兒个個些]?(?!怕)|怎[么麼样樣]|多少|[几幾](?=[个個岁歲点點月号號天])|为何|為何|吗|嗎|何(?=[\u3041-\u3081\u3083-\u309f时時处處歳人语語色曜月日年])|如何|なに|なん(?=です|だ|て)"
    r"|どこ|どれ|どの|どんな|いつ(?!も)|だれ|なぜ|いくつ|いくら|ですか|ますか|무엇|뭐|뭘|누구|어디|언제|어느|어떤|얼마|어떻게"
    r"|[呢か]\W*\Z|(?:니|까|나요)\W*\Z"
)
"""Words and endings of questions in Chinese, Japanese and Korean."""
_LONGEST_DENSE = 40  # in a longer sentence such a word tends to stand for "whatever"


def sentences_of(text: str) -> Iterator[tuple[int, int]]:
    """Where the sentences of a text begin and end, blanks around them left out."""
    for found in _SENTENCE.finditer(text):
        sentence = found.group()
        if sentence.strip():
            begin = found.start() + len(sentence) - len(sentence.lstrip())
            yield begin, begin + len(sentence.strip())


def asks(sentence: str) -> bool:
    """Is it a question, by its mark, its first words or, in Chinese, Japanese and Korean, its asking words?"""
    if _MARK.search(sentence) or _ASKS.match(sentence):
        return True
    if sentence.isascii() or len(sentence) > _LONGEST_DENSE:
        return False
    return DENSE_ASKING_WORDS.search(sentence) is not None


def asked_in(text: str) -> str:
    """What a message asks for: its questions, or the whole of a demand to tell something; "" for a statement."""
    questions = [text[begin:end] for begin, end in sentences_of(text) if asks(text[begin:end])]
    if not questions and (_WANTS_TO_KNOW.match(text) or _MARK.search(text)):
        return text
    return " ".join(questions)


def kind_asked_for(question: str) -> str:
    """The word after "which" or "what" that only says of what kind the answer is, as in "which city do I live in?"."""
    found = _KIND.search(question)
    return found["kind"] if found else ""
