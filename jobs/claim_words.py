"""The words by which claims are recognised, and what the values of attributes look like."""

from __future__ import annotations

import re


def words_of(text: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(text.split())


_NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve"
NUMBERS = {word: str(value) for value, word in enumerate(_NUMBERS.split())}

NUMEROUS = words_of(
    "aunt classmate client colleague cousin coworker customer employee friend neighbor neighbour nephew niece patient"
    " pupil student teammate uncle user roommate"
)
"""Of these everybody has several: two statements are hardly about the same one."""
MANY = NUMEROUS | words_of(
    "account baby bike bird boy brother car cat child company daughter dog fish girl grandchild grandfather"
    " grandmother grandparent horse house kid kitten pet phone project puppy rabbit server sibling sister son"
    " team twin"
)
"""Of these somebody may have several: two statements are about the same one only where the later says so."""
PEOPLE = MANY | words_of(
    "boss boyfriend dad dentist doctor father fiance fiancee girlfriend husband landlord lawyer manager mom mother mum"
    " parent parents partner spouse teacher therapist wife"
)
"""Somebody, or an animal, that has an age."""
ENGAGEMENTS = words_of(
    "appointment call class date dinner event exam interview lesson lunch meeting party session shift test trip visit"
)
"""Of these of one's own there may be several at once."""

ADJECTIVES = words_of(
    "american australian austrian belgian brazilian british buddhist canadian catholic chinese christian danish dutch"
    " english european finnish french german greek hindu indian irish italian japanese jewish korean mexican muslim"
    " norwegian polish portuguese russian spanish swedish swiss turkish ukrainian"
    " amazing awesome awful bad beautiful best boring broken busy cheap closed cool correct dead delicious difficult"
    " discontinued easy empty excellent expensive expired famous fantastic fine free full fun funny gone good great"
    " happy hard healthy huge important inactive interesting late long lost low missing new nice okay old open"
    " overdue popular private public ready required safe secret short sick sold strict strong tight unclear undecided"
    " n/a none unknown unspecified weak weird wonderful wrong young"
)
"""Words that say how something is, where a value would say what it is."""

_LARGE_PLACES = (
    "the netherlands|the uk|the us|the usa|the united states|united states|united kingdom|the united kingdom"
    "|new zealand|south africa|south korea|czech republic|the czech republic|the philippines"
)
COUNTRIES = words_of(
    "africa america argentina asia australia austria belgium brazil britain bulgaria canada chile china colombia"
    " croatia cyprus czechia denmark egypt england estonia europe finland france germany greece hungary iceland india"
    " indonesia iran iraq ireland israel italy japan kenya korea latvia lithuania malaysia malta mexico morocco nepal"
    " netherlands nigeria norway pakistan peru philippines poland portugal romania russia scotland serbia"
    " slovakia slovenia spain sweden switzerland taiwan thailand turkey uk ukraine usa us vietnam wales texas"
    " california florida bavaria"
) | frozenset(_LARGE_PLACES.split("|"))
"""Countries and other places that are larger than a city."""

OCCUPATION = re.compile(
    r"(?:(?:senior|junior|lead|chief|head|principal|staff|software|data|web|front-?end|back-?end|full-?stack|product"
    r"|project|program|sales|marketing|account|graphic|interior|civil|mechanical|electrical|security|network|systems?"
    r"|high|school|primary|university|team|engineering|general|assistant|associate|store|office|bank|bus|taxi|truck"
    r"|police|fire|ux|ui|hr|machine|learning|research|business|financial|tax|freelance) ){0,3}"
    r"(?:accountant|actor|actress|analyst|architect|artist|baker|barista|bartender|biologist|bookkeeper|builder"
    r"|butcher|carpenter|cashier|chef|chemist|cleaner|clerk|coach|consultant|cook|copywriter|dentist|designer"
    r"|developer|director|doctor|driver|economist|editor|electrician|engineer|farmer|firefighter|florist|gardener"
    r"|hairdresser|historian|journalist|judge|lawyer|lecturer|librarian|manager|mechanic|midwife|musician|nurse"
    r"|officer|paramedic|pharmacist|physicist|pilot|plumber|policeman|principal|producer|professor|programmer"
    r"|psychologist|receptionist|recruiter|researcher|salesman|saleswoman|scientist|secretary|social worker|soldier"
    r"|surgeon|teacher|technician|tester|therapist|translator|tutor|vet|veterinarian|waiter|waitress|welder|writer)",
    re.IGNORECASE,
)
MARITAL = "single|married|divorced|engaged|widowed|separated"
DIET = "vegetarian|vegan|pescatarian|pescetarian|omnivore|carnivore|flexitarian"
LANGUAGE = (
    "English|Portuguese|Spanish|French|German|Italian|Dutch|Polish|Russian|Ukrainian|Chinese|Japanese|Korean|Arabic"
    "|Hindi|Turkish|Swedish|Norwegian|Danish|Finnish|Greek|Czech|Hungarian|Romanian|Mandarin"
)

_BUILDINGS = words_of(
    "airport apartment avenue building court hospital hotel house lane office park road school square street tower"
    " university"
)
_SMALL = words_of("of the de da do la le el del van von der den")
_PROPER = re.compile(r"[^\W_][\w.&'’+-]*")


def words_folded(text: str) -> str:
    """A text without case, with numbers as digits and one spelling, to be compared with others."""
    words = text.casefold().replace("favourite", "favorite").replace("colour", "color").split()
    return " ".join(NUMBERS.get(word, word) for word in words).strip(" ,.!\"'")


def is_proper(text: str, most_words: int = 4) -> bool:
    """Is it a proper name, by its capitals?"""
    large = [word for word in text.replace(",", "").split() if word.lower() not in _SMALL]
    return 0 < len(large) <= most_words and all(_PROPER.fullmatch(word) and word[0].isupper() for word in large)


def is_place(text: str) -> bool:
    """Is it the name of a place where one lives, and no street or building?"""
    return is_proper(text) and text.lower().rpartition(" ")[2] not in _BUILDINGS


def is_employer(text: str) -> bool:
    """Is it the name of a company, as far as its form can tell?"""
    first, *others = text.split(maxsplit=1) or [""]
    if first.isalnum() and any(map(str.isdigit, first)) and not first.isdigit():
        return not others or is_employer(others[0])  # 3M, 7Eleven
    return is_proper(text) and text.lower() not in ADJECTIVES
