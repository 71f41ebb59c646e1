"""`perdure memories` and `perdure reindex`: what agents remember, and the indexes that find it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from ...jobs.recalled import RecallHit
from ...storage.memory_index_records import INDEX_KINDS, IndexKind
from ...storage.memory_keys import key_shown
from ...storage.memory_records import Memory
from ..client.agent import Agent
from ..client.memories import Memories
from ..client.runtime import Runtime
from .known import connect_to_existing, known_agent
from .output import Output, amount, moment, one_line

VALUE_CHARS = 100


def list_memories(data_dir: Path | None, agent: str, contact: str | None, limit: int, output: Output) -> None:
    """Print what is remembered now, the newest first."""
    with connect_to_existing(data_dir) as runtime:
        found = _memories(runtime, agent, contact).list(limit=limit)
    if output.as_json:
        output.json([memory_as_json(memory) for memory in found])
        return
    output.table(
        ("key", "value", "type", "confidence", "used", "said", "id"),
        [
            (
                _key(memory),
                one_line(memory.value, VALUE_CHARS),
                memory.fact_type,
                f"{memory.confidence:.2f}",
                memory.access_count,
                moment(memory.valid_from),
                memory.memory_id,
            )
            for memory in found
        ],
    )
    if len(found) == limit:
        output.note(f"the newest {limit:,}; --limit shows more")


def search_memories(
    data_dir: Path | None, agent: str, contact: str | None, query: str, limit: int, output: Output
) -> None:
    """Print what a query recalls, and why."""
    with connect_to_existing(data_dir) as runtime:
        recalled = _memories(runtime, agent, contact).fused_recall(query, limit, fill=False)
    if output.as_json:
        hits = [_hit_as_json(hit) for hit in recalled.hits]
        output.json({"hits": hits, "unanswered": recalled.unanswered})
        return
    output.table(
        ("key", "value", "score", "found by"),
        [
            (_key(hit.memory), one_line(hit.memory.value, VALUE_CHARS), f"{hit.score:.5f}", _found_by(hit))
            for hit in recalled.hits
        ],
    )
    for channel, reason in recalled.unanswered.items():
        output.note(f"the {channel} channel did not answer: {reason}")


def show_history(data_dir: Path | None, agent: str, contact: str | None, key: str, output: Output) -> None:
    """Print every version under a key, and what took the place of each."""
    with connect_to_existing(data_dir) as runtime:
        memories = _memories(runtime, agent, contact)
        versions = memories.history(key)
        successors = _successors(memories, versions)
    if output.as_json:
        output.json([memory_as_json(version) for version in versions])
        return
    if not versions:
        output.line(f"nothing was ever remembered under {key!r}")
    for version in versions:
        state = "now" if version.is_active else f"until {moment(version.superseded_at or version.updated_at)}"
        output.line(f"{_key(version)}  version {version.version}, since {moment(version.valid_from)}, {state}")
        output.line(one_line(version.value, VALUE_CHARS), indent=4)
        if not version.is_active:
            output.line(f"└ {version.reason}: {successors.get(version.row_id, 'by nothing')}", indent=4)


def forget_memory(
    data_dir: Path | None, agent: str, contact: str | None, key: str, *, is_sure: bool, output: Output
) -> None:
    """Forget what stands under a key, once the user agrees."""
    with connect_to_existing(data_dir) as runtime:
        owner = runtime.agent(known_agent(runtime, agent).name)
        memories = _view(owner, contact)
        found = [memory for memory in memories.recall(key) if memory.scope.contact_id == contact]
        if not found:
            if output.as_json:
                output.json(None)
            else:
                output.line(f"nothing is remembered under {key!r}")
            return
        output.note(f"{_key(found[0])}: {one_line(found[0].value, VALUE_CHARS)}")
        if not is_sure and not output.agrees("Forget it? Its history stays."):
            raise typer.Exit(1)
        memories.forget(key)
    if output.as_json:
        output.json(memory_as_json(found[0]))
    else:
        output.line(f"forgotten: {_key(found[0])}")


def reindex(data_dir: Path | None, kinds: Sequence[IndexKind], output: Output) -> None:
    """Make indexes anew from what is remembered."""
    counts: dict[str, int] = {}
    with connect_to_existing(data_dir) as runtime:
        for kind in kinds or INDEX_KINDS:
            output.note(f"the {kind} index is being made anew; recall goes on with the others")
            counts[kind] = runtime.memory_call("reindex", kind, timeout_s=None)
        if not kinds:
            runtime.memory_call("reindex_messages", timeout_s=None)
            output.note("every conversation has its messages indexed again, in the background")
    if output.as_json:
        output.json(counts)
    else:
        for name, count in counts.items():
            output.line(f"{name}: {amount(count, 'memory', 'memories')}")


def memory_as_json(memory: Memory) -> dict[str, object]:
    """A version for `--json`."""
    return {
        "id": memory.memory_id,
        "version": memory.version,
        "contact": memory.scope.contact_id,
        "key": memory.key,
        "value": memory.value,
        "fact_type": memory.fact_type,
        "kind": memory.kind,
        "confidence": memory.confidence,
        "source": memory.source,
        "access_count": memory.access_count,
        "created_at": memory.created_at,
        "updated_at": memory.updated_at,
        "valid_from": memory.valid_from,
        "superseded_at": memory.superseded_at,
        "superseded_by": None if memory.superseded_by is None else memory.superseded_by.memory_id,
        "reason": memory.reason,
    }


def _hit_as_json(hit: RecallHit) -> dict[str, object]:
    ranks = {place.channel: {"rank": place.rank, "relevance": place.relevance} for place in hit.ranks}
    return {**memory_as_json(hit.memory), "score": hit.score, "found_by": ranks}


def _found_by(hit: RecallHit) -> str:
    return ", ".join(f"{place.channel} #{place.rank} ({place.relevance:.3g})" for place in hit.ranks)


def _key(memory: Memory) -> str:
    return one_line(key_shown(memory.scope, memory.key), VALUE_CHARS)


def _successors(memories: Memories, versions: Sequence[Memory]) -> dict[int, str]:
    """What took the place of each superseded version, by its row."""
    by_version = {version.version_id: version for version in versions}
    found = {}
    for version in versions:
        if version.superseded_by is None:
            continue
        successor = by_version.get(version.superseded_by) or memories.get(version.superseded_by.memory_id)
        if successor is not None:
            found[version.row_id] = f"{_key(successor)}: {one_line(successor.value, VALUE_CHARS)}"
    return found


def _memories(runtime: Runtime, agent: str, contact: str | None) -> Memories:
    return _view(runtime.agent(known_agent(runtime, agent).name), contact)


def _view(agent: Agent, contact: str | None) -> Memories:
    return agent.memories if contact is None else agent.memories_of(contact)
