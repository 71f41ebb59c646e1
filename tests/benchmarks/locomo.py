"""How much of what answers a question `recall_conversation` finds, over LoCoMo's conversations (Maharana et al. 2024).

`python -m tests.benchmarks.locomo --data FILE [--samples 10]`. The file is LoCoMo's JSON, plain or compressed. All of
its conversations are imported and indexed as they come; then each question of the categories 1 to 4 that names its
evidence is asked in its conversation, with default settings. A question's recall is the share of its evidence among
the first hits. No model answers anything.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from perdure.actors import Agent, ConversationHandle, connect
from perdure.actors.cli.transcript import TranscriptMessage, read_transcript
from perdure.actors.host_address import wait_until_unserved
from perdure.storage.settings import Settings

from .report import Figure, report
from .turn import benchmark_folder

CATEGORIES = (1, 2, 3, 4)
"""The fifth asks for what was never said."""
CUTS = (5, 10, 20)
INDEXING_AT_MOST_S = 1800.0
_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and the messages that answer it."""

    text: str
    evidence: frozenset[str]
    """Ids of messages, at least one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A conversation and what is asked of it."""

    name: str
    messages: tuple[TranscriptMessage, ...]
    questions: tuple[Question, ...]


def read_samples(path: Path) -> Iterator[Sample]:
    """The file's conversations in order."""
    plain = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    messages = read_transcript(path, Settings().turn.max_text_chars)
    conversations = groupby(messages, key=lambda message: message.conversation)
    for sample, (name, said) in zip(json.loads(plain), conversations, strict=True):
        every = tuple(said)
        ids = {str(message.message.message_id) for message in every}
        yield Sample(name=name, messages=every, questions=tuple(_questions(sample["qa"], ids)))


def _questions(entries: Iterable[Any], ids: set[str]) -> Iterator[Question]:
    for entry in entries:
        if entry.get("category") not in CATEGORIES:
            continue
        named = " ".join(map(str, entry.get("evidence") or []))  # some entries name several, or write `D:11:26`
        evidence = {f"D{int(session)}:{int(place)}" for session, place in _EVIDENCE.findall(named)}
        if found := evidence & ids:
            yield Question(text=entry["question"], evidence=frozenset(found))


def imported(agent: Agent, sample: Sample) -> ConversationHandle:
    """The sample's conversation, with all its messages."""
    chat = agent.conversation(sample.name)
    chat.import_messages(entry.message for entry in sample.messages)
    return chat


def wait_until_indexed(chats: Iterable[ConversationHandle]) -> None:
    """Wait until all that was said in these conversations can be found."""
    limit = time.monotonic() + INDEXING_AT_MOST_S
    for chat in chats:
        while left := chat.inspect().outbox["index"]:
            if time.monotonic() > limit:
                raise SystemExit(f"{left} messages of {chat.conversation_id} are not indexed yet")
            time.sleep(0.2)


def recall_of(chat: ConversationHandle, question: Question, limit: int | None) -> list[bool]:
    """For each hit, whether it is evidence."""
    recalled = chat.recall_conversation(question.text, limit=limit)
    if recalled.unanswered:
        raise SystemExit(f"a channel did not answer: {recalled.unanswered}")
    return [hit.message.message_id in question.evidence for hit in recalled.hits]


def main() -> None:
    """Measure and report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", type=Path, required=True, help="LoCoMo's JSON, plain or gzip")
    options.add_argument("--samples", type=int, default=10, help="conversations, the first ones")
    chosen = options.parse_args()
    samples = list(read_samples(chosen.data))[: chosen.samples]
    ray_dir = Path(tempfile.mkdtemp(prefix="pd-"))
    shares: dict[int, list[float]] = {cut: [] for cut in CUTS}
    took_ms: list[float] = []
    with benchmark_folder() as folder:
        settings = {"ray": {"temp_dir": str(ray_dir)}, "recall": {"channel_timeout_s": 30.0}}
        with connect(folder / "data", settings=settings) as runtime:
            agent = runtime.agent("locomo")
            began = time.monotonic()
            chats = [imported(agent, sample) for sample in samples]
            wait_until_indexed(chats)
            indexing_s = time.monotonic() - began
            for chat, sample in zip(chats, samples, strict=True):
                for question in sample.questions:
                    began = time.perf_counter()
                    first = recall_of(chat, question, None)
                    took_ms.append(1000 * (time.perf_counter() - began))
                    longer = recall_of(chat, question, max(CUTS))
                    for cut in CUTS:
                        hits = first if cut <= len(first) else longer
                        shares[cut].append(sum(hits[:cut]) / len(question.evidence))
        wait_until_unserved(folder / "data" / "run")
    shutil.rmtree(ray_dir, ignore_errors=True)
    messages = sum(len(sample.messages) for sample in samples)
    report(
        [
            *(
                Figure(
                    key=f"recall_at_{cut}",
                    value=statistics.fmean(shares[cut]),
                    meaning=f"share of the evidence among the first {cut} hits",
                    least=0.70 if cut == 10 else None,
                )
                for cut in CUTS
            ),
            Figure(key="questions", value=len(took_ms), meaning="with evidence, categories 1 to 4"),
            Figure(key="recall_ms_p50", value=statistics.median(took_ms), meaning="a question, to its ten hits"),
            Figure(key="indexing_s", value=indexing_s, meaning=f"{messages:,} messages, import included"),
        ],
        {"data": chosen.data.name, "samples": len(samples), "messages": messages},
    )


if __name__ == "__main__":
    main()
