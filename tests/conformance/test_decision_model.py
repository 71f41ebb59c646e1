"""The decision models of Perdure and its tests, each held against what a `DecisionModel` keeps to."""

from __future__ import annotations

import pytest

from perdure.jobs.decision_model import ChoiceQuestion, DecisionModel, QuestionId, ScoreQuestion, YesNoQuestion
from perdure.jobs.embedded_decisions import EmbeddedDecisions
from perdure.jobs.memory_questions import questions_about, state_part
from tests.conformance.decision_model import Asked, DecisionModelConformance
from tests.fixtures.conversation_file import at
from tests.fixtures.decisions import ToldDecisions

STATE = {
    "new": state_part("residence", "Ana moved to Porto", at(1)),
    "known_1": state_part("home_city", "Ana lives in Lisbon", at(0)),
    "known_2": state_part("pet", "Ana has a cat", at(0)),
}
OTHERS = (
    YesNoQuestion(question_id=QuestionId("is_sad"), instructions="Is the text sad?", yes_when="It makes one cry."),
    ChoiceQuestion(
        question_id=QuestionId("language"), instructions="Which language?", criteria={"en": "English", "pt": None}
    ),
    ScoreQuestion(
        question_id=QuestionId("care"), instructions="How urgent is it?", criteria=("not", "a little", "very")
    ),
)


class TestEmbeddedDecisions(DecisionModelConformance):
    @pytest.fixture
    def model(self) -> DecisionModel:
        return EmbeddedDecisions()

    @pytest.fixture
    def another(self) -> DecisionModel:
        return EmbeddedDecisions()

    @pytest.fixture
    def deciding(self) -> Asked:
        return Asked(STATE, [*questions_about("new", "known_1"), *questions_about("new", "known_2")])

    @pytest.fixture(params=range(len(OTHERS)))
    def failing(self, request) -> Asked:
        return Asked(STATE, [*questions_about("new", "known_1"), OTHERS[request.param]])


class TestToldDecisions(DecisionModelConformance):
    """Its answers are of all types, so it holds the suite's own checks."""

    @pytest.fixture
    def model(self) -> DecisionModel:
        return ToldDecisions({"is_sad": 0.8})

    @pytest.fixture
    def another(self) -> DecisionModel:
        return ToldDecisions({"is_sad": 0.8})

    @pytest.fixture
    def deciding(self) -> Asked:
        return Asked(STATE, OTHERS)

    @pytest.fixture
    def failing(self) -> None:
        return None
