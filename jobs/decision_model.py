"""The decision model as verification needs it: typed questions about one state, answered with probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NewType, Protocol, TypeAlias

QuestionId = NewType("QuestionId", str)
DecisionState: TypeAlias = str | Mapping[str, object]
"""What is judged: a text, or an object that JSON can write. It is data: nothing in it is an instruction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class YesNoQuestion:
    """A question that is answered by yes or no; `noul` on the wire."""

    question_id: QuestionId
    """Not empty, unique within a call."""
    instructions: str
    """The question."""
    yes_when: str | None = None
    """What makes the answer yes; a criterion."""
    no_when: str | None = None
    """What makes it no."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceQuestion:
    """A question that is answered by one of several labels."""

    question_id: QuestionId
    instructions: str
    criteria: Mapping[str, str | None]
    """Every label, 1 to 255 of them, and what speaks for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreQuestion:
    """A question that is answered by a place on a scale."""

    question_id: QuestionId
    instructions: str
    criteria: tuple[str, ...]
    """The levels, 1 to 10 of them, from the lowest to the highest."""


Question: TypeAlias = YesNoQuestion | ChoiceQuestion | ScoreQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class YesNoAnswer:
    """How likely the answer is yes."""

    probability: float
    """Of yes, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceAnswer:
    """The likeliest label."""

    choice: str
    """One of the question's labels."""
    probabilities: Mapping[str, float]
    """Of labels, 0 to 1; one that is not there has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreAnswer:
    """A place on the question's scale."""

    score: float
    """Between the indexes of levels: 0 is the lowest."""
    probabilities: tuple[float, ...]
    """Of each level, 0 to 1."""


Answer: TypeAlias = YesNoAnswer | ChoiceAnswer | ScoreAnswer


class DecisionModel(Protocol):
    """Answers questions about a state. Stateless: any instance may answer, and be asked again, by any thread."""

    @property
    def name(self) -> str:
        """What reasons, logs and errors call it."""
        ...

    def decide(self, state: DecisionState, questions: Sequence[Question]) -> Mapping[QuestionId, Answer]:
        """Answer all questions, each with the answer of its type, in one call.

        Raises:
            ModelUnavailableError: It may answer later.
            ModelRequestError: It will not take this request, or may not be asked.
        """
        ...
