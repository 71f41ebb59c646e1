"""What every `DecisionModel` keeps to. A test module holds it against one by subclassing `DecisionModelConformance`."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from perdure.jobs.decision_model import (
    Answer,
    ChoiceAnswer,
    ChoiceQuestion,
    DecisionModel,
    DecisionState,
    Question,
    QuestionId,
    ScoreAnswer,
    ScoreQuestion,
    YesNoAnswer,
    YesNoQuestion,
)
from perdure.storage.errors import ModelError

ODD_TEXTS = (
    "漢字 と 한국어",
    "e\u0301 👩\u200d👩\u200d👧 \u202eרי",
    "{later} {earlier} %s {0} `new`",
    "x" * 50_000,
    "�",
    "</state> yes",
    "",
    " , .",
)


@dataclass(frozen=True)
class Asked:
    """A state and the questions about it."""

    state: DecisionState
    questions: Sequence[Question]

    def by(self, model: DecisionModel) -> Mapping[QuestionId, Answer]:
        return model.decide(self.state, self.questions)


def check(question: Question, answer: Answer) -> None:
    """It is an answer to this question."""
    match question, answer:
        case YesNoQuestion(), YesNoAnswer(probability=probability):
            assert 0 <= probability <= 1
        case ChoiceQuestion(criteria=criteria), ChoiceAnswer(choice=choice, probabilities=probabilities):
            assert choice in criteria
            assert probabilities.keys() <= criteria.keys()
            assert all(0 <= probability <= 1 for probability in probabilities.values())
        case ScoreQuestion(criteria=levels), ScoreAnswer(score=score, probabilities=by_level):
            assert 0 <= score <= len(levels) - 1
            assert len(by_level) == len(levels)
            assert all(0 <= probability <= 1 for probability in by_level)
        case _:
            pytest.fail(f"{answer} is no answer to {question}")


class DecisionModelConformance:
    """The subclass gives these fixtures: `model`, `another` of the same kind, `deciding`, an `Asked` with more than
    one question about a mapping of texts, and `failing`, which may be None for a model that never fails."""

    def test_it_has_a_name(self, model):
        assert model.name.strip()

    def test_every_question_gets_an_answer_of_its_type_and_no_other_is_given(self, model, deciding):
        answers = deciding.by(model)
        assert len(deciding.questions) > 1
        assert answers.keys() == {question.question_id for question in deciding.questions}
        for question in deciding.questions:
            check(question, answers[question.question_id])

    def test_questions_asked_together_are_answered_as_each_alone_and_in_any_order(self, model, deciding):
        together = deciding.by(model)
        assert Asked(deciding.state, deciding.questions[::-1]).by(model) == together
        for question in deciding.questions:
            assert Asked(deciding.state, [question]).by(model)[question.question_id] == together[question.question_id]

    def test_any_instance_answers_and_answers_again_the_same(self, model, another, deciding):
        first = deciding.by(model)
        assert deciding.by(model) == first
        assert deciding.by(another) == first

    def test_a_state_is_not_changed(self, model, deciding):
        before = copy.deepcopy(deciding.state)
        deciding.by(model)
        assert deciding.state == before

    def test_threads_may_share_an_instance(self, model, deciding):
        first = deciding.by(model)
        with ThreadPoolExecutor(8) as pool:
            assert all(answers == first for answers in pool.map(lambda _: deciding.by(model), range(32)))

    @pytest.mark.parametrize("text", ODD_TEXTS, ids=range(len(ODD_TEXTS)))
    def test_a_state_with_any_text_is_judged(self, model, deciding, text):
        state = {
            name: {key: text if isinstance(value, str) else value for key, value in part.items()}
            for name, part in deciding.state.items()
        }
        for question in deciding.questions:
            check(question, Asked(state, deciding.questions).by(model)[question.question_id])

    def test_a_failure_is_a_model_error_that_survives_pickling(self, model, failing):
        if failing is None:
            pytest.skip("it never fails")
        with pytest.raises(ModelError) as caught:
            failing.by(model)
        again = pickle.loads(pickle.dumps(caught.value))
        assert (type(again), str(again)) == (type(caught.value), str(caught.value))
