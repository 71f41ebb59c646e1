"""Verification: what a new memory does to those that are known, as a decision model sees it.

Pure: whoever calls has found the candidates and stores the outcome.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ..storage.errors import ModelError, ModelUnavailableError
from ..storage.memory_input import stored_moment
from ..storage.memory_records import Kind, Memory, Verification, VersionId, kind_of
from ..storage.memory_write_records import MemoryWrite
from ..storage.settings import MemorySettings
from .decision_model import Answer, DecisionModel, QuestionId, YesNoAnswer
from .memory_questions import question_id, questions_about, state_part
from .passages import on_one_line

NEW = "new"
"""The name of the new memory in what the model sees; the candidates are `known_1` and so on."""
_SHOWN_KEY_CHARS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemory:
    """A memory that is to be verified."""

    key: str
    text: str
    kind: Kind
    said_at: datetime
    """Whichever of two memories was said later can replace the other."""

    @classmethod
    def of_write(cls, write: MemoryWrite, current: Memory | None = None) -> NewMemory:
        """What a write is about to store.

        Args:
            current: What is active under its key, which gives it its kind if the write does not.

        Raises:
            InvalidInputError: Its time is none.
        """
        kind = current.kind if write.fact_type is None and current is not None else kind_of(write.fact_type or "fact")
        said_at = stored_moment(write.valid_from or write.at, "valid_from")
        return cls(key=write.key, text=write.value, kind=kind, said_at=said_at)

    @classmethod
    def of_memory(cls, memory: Memory) -> NewMemory:
        """A memory that was stored unverified."""
        return cls(
            key=memory.key,
            text=memory.value,
            kind=memory.kind,
            said_at=memory.valid_from,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Related:
    """A known memory to which the model said yes."""

    version_id: VersionId
    key: str
    probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What verification found out."""

    verification: Verification
    """`unverified`: the model could not be asked. The write goes on, and is verified later."""
    replaced: tuple[Related, ...] = ()
    """Known memories whose place the new one takes."""
    outdated_by: Related | None = None
    """A known memory that was said later and takes the place of the new one."""
    noticed: tuple[Related, ...] = ()
    """Contradictions that replace nothing: something to log."""
    reason: str = "replaced"
    """Why the replaced ones are superseded."""
    failure: ModelError | None = None
    """Why it is unverified."""

    @property
    def supersedes(self) -> tuple[VersionId, ...]:
        """The versions that the new memory takes the place of."""
        return tuple(related.version_id for related in self.replaced)

    def applied_to(self, write: MemoryWrite) -> MemoryWrite:
        """The write that stores the new memory and supersedes what it replaces in the same commit."""
        return replace(write, verification=self.verification, supersedes=self.supersedes, reason=self.reason)


def verify(new: NewMemory, candidates: Sequence[Memory], model: DecisionModel, settings: MemorySettings) -> Verdict:
    """Ask in one call what a new memory does to the known ones that are like it.

    Args:
        candidates: Active memories of the same scope, the likest first, not less like than
            `settings.verify_similarity`. Tasks and what stands under the same key are left out here.
    """
    asked_about = _candidates(new, candidates, settings)
    if not asked_about or new.kind == "task" or not settings.verify:
        return Verdict(verification="not_needed")
    pairs = {f"known_{place}": memory for place, memory in enumerate(asked_about, start=1)}
    state = {NEW: state_part(new.key, new.text, new.said_at)}
    state |= {name: state_part(memory.key, memory.value, memory.valid_from) for name, memory in pairs.items()}
    order = {name: _in_order(new, name, memory) for name, memory in pairs.items()}
    questions = [question for later, earlier in order.values() for question in questions_about(later, earlier)]
    try:
        answers = model.decide(state, questions)
        found = {
            name: (
                _probability(answers, question_id("replaces", *order[name]), model),
                _probability(answers, question_id("contradicts", *order[name]), model),
            )
            for name in pairs
        }
    except ModelError as failure:
        return Verdict(verification="unverified", failure=failure)
    replaced, outdated_by, noticed = [], None, []
    for name, memory in pairs.items():
        replaces, contradicts = found[name]
        if replaces >= settings.replaces_probability:
            related = Related(version_id=memory.version_id, key=memory.key, probability=replaces)
            if order[name] == (NEW, name):
                replaced.append(related)
            else:
                outdated_by = outdated_by or related
        elif contradicts >= settings.replaces_probability:
            noticed.append(Related(version_id=memory.version_id, key=memory.key, probability=contradicts))
    return Verdict(
        verification="verified",
        replaced=tuple(replaced),
        outdated_by=outdated_by,
        noticed=tuple(noticed),
        reason=_reason(new, replaced, model),
    )


def _candidates(new: NewMemory, candidates: Sequence[Memory], settings: MemorySettings) -> list[Memory]:
    fitting = [memory for memory in candidates if memory.kind != "task" and memory.key != new.key and memory.is_active]
    return fitting[: settings.verify_candidates]


def _in_order(new: NewMemory, name: str, known: Memory) -> tuple[str, str]:
    """The names of the later and the earlier one; of two said at once, the new one is the later."""
    return (name, NEW) if known.valid_from > new.said_at else (NEW, name)


def _probability(answers: Mapping[QuestionId, Answer], asked: QuestionId, model: DecisionModel) -> float:
    answer = answers.get(asked)
    if not isinstance(answer, YesNoAnswer) or not 0 <= answer.probability <= 1:
        raise ModelUnavailableError(model.name, f"it gave no probability of yes to the question {asked!r}")
    return answer.probability


def _reason(new: NewMemory, replaced: Sequence[Related], model: DecisionModel) -> str:
    if not replaced:
        return "replaced"
    lowest = min(related.probability for related in replaced)
    return f"replaced by {on_one_line(new.key, _SHOWN_KEY_CHARS)}: {model.name} says so, probability {lowest:.2f}"
