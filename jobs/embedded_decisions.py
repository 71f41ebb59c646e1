"""The embedded decision model: tells by rules whether one memory replaces another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..storage.errors import ModelRequestError
from .decision_model import Answer, DecisionState, Question, QuestionId, YesNoAnswer
from .memory_questions import asked_by, shown_in
from .replacement import replacement

YES = 0.95
NO = 0.05


class EmbeddedDecisions:
    """Answers the questions of verification about two memories, and no others. A `DecisionModel`.

    It says yes only where two texts are the same, where one denies the other word for word, or where both name the
    same attribute of the same subject, one that has a single value at a time, and different values. It is no language
    model: it knows a few dozen forms of English sentences, and of other languages only the same text. Everything
    else is a no, since a fact that is wrongly superseded is a fact lost. It needs no key, no file and no network, and
    the same state gets the same answers. Threads may share one instance.
    """

    name = "embedded"

    def decide(self, state: DecisionState, questions: Sequence[Question]) -> Mapping[QuestionId, Answer]:
        """Answer questions about memories of the state.

        Raises:
            ModelRequestError: A question is another than those of `memory_questions`, or about what is not there.
        """
        return {question.question_id: self._answer(state, question) for question in questions}

    def _answer(self, state: DecisionState, question: Question) -> Answer:
        asked = asked_by(question)
        later, earlier = (shown_in(state, asked.later), shown_in(state, asked.earlier)) if asked else (None, None)
        if asked is None or later is None or earlier is None:
            raise ModelRequestError(
                self.name,
                f"it cannot answer {question.question_id!r}: it only knows whether one memory replaces or contradicts"
                " another; set a decision model for other questions",
            )
        found = replacement(earlier, later)
        is_yes = found.replaces if asked.relation == "replaces" else found.contradicts
        return YesNoAnswer(probability=YES if is_yes else NO)
