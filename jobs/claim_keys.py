"""What the key of a memory says about its claim: the attribute, and what else it names."""

from __future__ import annotations

from dataclasses import dataclass

from ..storage.memory_keys import key_segments
from .claim_words import words_of

_NEUTRAL = words_of(
    "user users my me current currently now new newest latest present updated update profile personal info about"
    " details detail fact facts memory own self is the of change changed correction data value"
)
_SAME = {
    "favourite": "favorite",
    "colour": "color",
    "preferred": "preference",
    "preferences": "preference",
    "prefers": "preference",
    "timezone": "tz",
}
_FORMS = {
    "residence": "city|home|home city|residence|location|home location|city residence|lives in|town|place residence",
    "country": "country|country residence|home country",
    "address": "address|home address|postal address",
    "employer": "employer|company|workplace|job company|work company|job employer|work employer|job workplace",
    "occupation": "occupation|profession|job title|title|role|position|job role|career|work role",
    "age": "age",
    "name": "name|first name",
    "phone": "phone|phone number|mobile|telephone",
    "email": "email|email address|mail",
    "marital": "marital status|relationship status|marriage|marital",
    "diet": "diet|dietary preference|diet preference|diet type",
    "time zone": "tz|time zone",
    "birthday": "birthday|birth date|date birth|dob|birthdate",
    "weight": "weight|body weight",
    "height": "height|body height",
    "shoe size": "shoe size",
}
_ATTRIBUTES = {frozenset(form.split()): attribute for attribute, forms in _FORMS.items() for form in forms.split("|")}
"""By the words of a key."""
_EMPLOYMENT = words_of("job work employer company workplace employment career")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWords:
    """What a key names."""

    attribute: str | None
    """That its value is of; None if it names none that has a single value at a time."""
    words: frozenset[str]
    """All its words but those that say nothing."""

    def names(self, attribute: str) -> bool:
        """Does it speak of that attribute, whatever else it says?"""
        return self.attribute == attribute or (attribute == "employer" and not self.words.isdisjoint(_EMPLOYMENT))


def read_key(key: str) -> KeyWords:
    """What a key names, whatever the order of its segments."""
    words = frozenset(_SAME.get(segment, segment) for segment in key_segments(key)) - _NEUTRAL
    attribute = _ATTRIBUTES.get(words)
    for kind in ("favorite", "preference"):
        if attribute is None and kind in words and 2 <= len(words) <= 3:
            attribute = f"{kind} {' '.join(sorted(words - {kind}))}"
    return KeyWords(attribute=attribute, words=words)
