"""Holds what the clients of a campaign were told against what the files and the tools' log say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from perdure.storage.records import StoredMessage

from .effect_log import Effect
from .journal import ClientTurn, Journal, Violation, differences
from .stored import StoredConversation
from .witness import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Checker:
    """Looks for broken promises; the same ones are found however often it looks."""

    journal: Journal
    conversations: Mapping[str, StoredConversation]
    """By id; without those that have no file or cannot be opened."""
    effects: Sequence[Effect]
    evidence: Evidence

    def violations(self) -> Iterator[Violation]:
        """All that is found."""
        for turn in self.journal.turns:
            stored = self.conversations.get(turn.conversation_id)
            if stored is None:
                if turn.reply is not None:
                    yield Violation(count="acked_lost", text=f"{turn.turn_id}: its conversation is not there")
                continue
            if turn.reply is not None:
                yield from _acknowledged(turn, stored)
            yield from _rows(turn, stored)
            yield from self._kept_results(turn, stored)
        yield from self._order()
        yield from self._notes()
        yield from self._effects()

    def _kept_results(self, turn: ClientTurn, stored: StoredConversation) -> Iterator[Violation]:
        """A result that was once committed is the one that the history has."""
        for row in stored.messages:
            if row.turn_id != turn.turn_id or row.role != "tool":
                continue
            committed = self.evidence.results.get((turn.turn_id, str(row.call_id)))
            if committed is not None and committed.status != row.status:
                yield Violation(
                    count="acked_lost",
                    text=f"{turn.turn_id} {row.call_id}: committed as {committed.status}, kept as {row.status}",
                )

    def _order(self) -> Iterator[Violation]:
        """The turns of a client stand in the order in which it sent them."""
        sent: dict[tuple[int, str], list[ClientTurn]] = defaultdict(list)
        for turn in self.journal.turns:
            if turn.reply is not None and turn.conversation_id in self.conversations:
                sent[turn.client, turn.conversation_id].append(turn)
        for (client, conversation_id), turns in sent.items():
            ids = {turn.turn_id for turn in turns}
            rows = self.conversations[conversation_id].messages
            for role, chosen in (("user", _user_rows(rows)), ("assistant", _reply_rows(rows))):
                stored = list(dict.fromkeys(str(row.turn_id) for row in chosen if row.turn_id in ids))
                expected = [turn.turn_id for turn in turns if turn.turn_id in stored]
                if stored != expected:
                    yield Violation(
                        count="acked_lost",
                        text=f"{conversation_id}: client {client} sent {expected}, {role} rows stand as {stored}",
                    )

    def _notes(self) -> Iterator[Violation]:
        """A line that was added to the notes stands there once; one that was not added does not."""
        for turn in self.journal.turns:
            stored = self.conversations.get(turn.conversation_id)
            if turn.plan.note is None or stored is None:
                continue
            times = stored.notes.count(turn.plan.note)
            is_saved = any(
                row.turn_id == turn.turn_id and row.tool_name == "set_context" and row.status == "succeeded"
                for row in stored.messages
            )
            if times > 1:
                yield Violation(count="duplicates", text=f"{turn.turn_id}: its note stands {times} times")
            if is_saved and times == 0:
                yield Violation(count="acked_lost", text=f"{turn.turn_id}: its note is not there")
        for note in self.journal.notes:
            stored = self.conversations.get(note.conversation_id)
            times = 0 if stored is None else stored.notes.count(note.text)
            if times > 1:
                yield Violation(count="duplicates", text=f"{note.conversation_id}: {note.text!r} {times} times")
            if note.is_acked and times == 0:
                yield Violation(count="acked_lost", text=f"{note.conversation_id}: {note.text!r} is not there")

    def _effects(self) -> Iterator[Violation]:
        """No finished call ran again, and one that may do harm never ran twice."""
        turns = {turn.turn_id: turn for turn in self.journal.turns}
        by_call: dict[tuple[str, str], list[Effect]] = defaultdict(list)
        for effect in self.effects:
            by_call[effect.turn_id, effect.call_id].append(effect)
        for (turn_id, call_id), effects in by_call.items():
            starts = [effect.at_ns for effect in effects if effect.moment == "start"]
            committed = self.evidence.results.get((turn_id, call_id))
            turn = turns.get(turn_id)
            reason = None
            if not effects[0].is_idempotent and len(starts) > 1:
                reason = f"is not idempotent and ran {len(starts)} times"
            elif committed is not None and max(starts) > committed.at_ns:
                reason = "ran again after its result was committed"
            elif turn is None:
                reason = "ran for a turn that no client sent"
            elif turn.reply is not None and max(starts) > turn.acked_at_ns:
                reason = "ran again after its turn was acknowledged"
            if reason:
                yield Violation(count="finished_tools_rerun", text=f"{turn_id} {call_id} {reason}")
        for turn in self.journal.turns:
            for call in turn.reply.tool_calls if turn.reply is not None else ():
                has_run = any(effect.moment == "end" for effect in by_call[turn.turn_id, call.call_id])
                if call.status == "succeeded" and call.name != "set_context" and not has_run:
                    yield Violation(
                        count="acked_lost", text=f"{turn.turn_id} {call.call_id} is told as done and was not"
                    )


def _acknowledged(turn: ClientTurn, stored: StoredConversation) -> Iterator[Violation]:
    """The turn is there, once, with the reply that its client was given."""
    reply, record = turn.reply, stored.turns.get(turn.turn_id)
    assert reply is not None
    problems = []
    mine = [row for row in stored.messages if row.turn_id == turn.turn_id]
    if not _user_rows(mine):
        problems.append("its message is not there")
    elif mine[0].role != "user" or mine[0].content != turn.text:
        problems.append(f"its message is now {mine[0].content!r}")
    if record is None:
        problems.append("it has no record")
    elif reply.turn_id != turn.turn_id:  # another turn took its results over
        if record.absorbed_by is None:
            problems.append(f"turn {reply.turn_id} answered, and it is {record.state}")
    elif record.reply is None:
        problems.append(f"it is {record.state}, without a reply")
    elif difference := differences(reply, record.reply):
        problems.append(f"its stored reply differs: {difference}")
    elif not _reply_rows(mine) or not reply.text.endswith(_reply_rows(mine)[-1].content):
        problems.append("its reply is not in the history")
    else:
        told = Counter((str(call.call_id), str(call.status)) for call in reply.tool_calls)
        kept = Counter((str(row.call_id), str(row.status)) for row in mine if row.role == "tool")
        if missing := told - kept:
            problems.append(f"calls {sorted(missing)} are not in the history")
    for problem in problems:
        yield Violation(count="acked_lost", text=f"{turn.turn_id} in {turn.conversation_id}: {problem}")


def _rows(turn: ClientTurn, stored: StoredConversation) -> Iterator[Violation]:
    """Nothing of the turn is stored twice, whether or not it was acknowledged."""
    mine = [row for row in stored.messages if row.turn_id == turn.turn_id]
    counts = {
        "messages": sum(row.role == "user" and row.content == turn.text for row in stored.messages),
        "user rows": len(_user_rows(mine)),
        "reply rows": len(_reply_rows(mine)),
        **{
            f"results of {call_id}": count
            for call_id, count in Counter(row.call_id for row in mine if row.role == "tool").items()
        },
        **{
            f"requests for {call_id}": count
            for call_id, count in Counter(call.call_id for row in mine for call in row.tool_calls).items()
        },
    }
    for what, count in counts.items():
        if count > 1:
            yield Violation(count="duplicates", text=f"{turn.turn_id} in {turn.conversation_id} has {count} {what}")


def _user_rows(rows: Sequence[StoredMessage]) -> Sequence[StoredMessage]:
    return [row for row in rows if row.role == "user"]


def _reply_rows(rows: Sequence[StoredMessage]) -> Sequence[StoredMessage]:
    return [row for row in rows if row.role == "assistant" and not row.tool_calls]
