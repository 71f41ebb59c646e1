"""What a turn costs: time beside the disk's own, memory of a live conversation, bytes of a dormant one.

`python -m tests.benchmarks.turn [--n 200] [--churn 1000] [--seed 0]`. Times are compared with a raw write and
`fdatasync` of the same size, interleaved with what is measured, since the disk's pace changes by the hour. The turns
are those of an agent by default: it has memory, none yet of what the turns are about, and its messages are indexed
beside. What a recall adds once there are memories (the text embedded, two indexes asked), and what the turn of an agent
without memory takes, is told by itself.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import string
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from perdure.actors import Agent, Runtime, connect
from perdure.actors.testing import CallTools, Rule, Say, Script
from perdure.storage.conversation_store import ConversationStore
from perdure.storage.records import (
    CallId,
    ConversationIdentity,
    Message,
    MessageId,
    Reply,
    ToolCall,
    ToolResult,
    TurnId,
    Usage,
)

from .instant_model import NAME as INSTANT
from .report import Figure, report
from .tools import instant

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROUNDS = 5
MEMORIES = 100


class RawDisk:
    """The disk without us: a write and its `fdatasync`."""

    def __init__(self, path: Path, size: int) -> None:
        self._descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
        self._block = b"x" * size

    def sync(self) -> None:
        """Write a block durably."""
        os.write(self._descriptor, self._block)
        os.fdatasync(self._descriptor)


def elapsed_ms(action: Callable[[], object]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1000


class Words:
    """Texts that compress about as badly as a tool's results do."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def text(self, chars: int) -> str:
        """So many characters."""
        return "".join(self._random.choices(string.ascii_letters + string.digits + "     ", k=chars))


def new_store(path: Path) -> ConversationStore:
    """An empty conversation."""
    identity = ConversationIdentity(agent="agent", conversation_id="c")  # type: ignore[arg-type]
    return ConversationStore.open(path, identity, NOW)


def message(message_id: str, role: str, content: str, turn_id: str) -> Message:
    """A message of a turn."""
    return Message(
        message_id=MessageId(message_id),
        role=role,  # type: ignore[arg-type]
        content=content,
        turn_id=TurnId(turn_id),
        tokens=len(content) // 4,
        created_at=NOW,
    )


def results(words: Words, count: int, first: int = 0) -> tuple[ToolResult, ...]:
    """Results of 3,000 characters."""
    return tuple(
        ToolResult(
            call_id=CallId(f"call{first + place}"), status="succeeded", preview=words.text(3000), finished_at=NOW
        )
        for place in range(count)
    )


def calls_of(some: tuple[ToolResult, ...]) -> tuple[ToolCall, ...]:
    """The calls that they answer."""
    return tuple(ToolCall(call_id=result.call_id, name="look", arguments="{}") for result in some)


def checkpoint_times(folder: Path, words: Words, n: int) -> tuple[list[float], list[float]]:
    """Times of committing ten results, and of the raw disk in between."""
    store, raw = new_store(folder / "checkpoint.duckdb"), RawDisk(folder / "raw", 30_000)
    commits, syncs = [], []
    for place in range(n):
        turn = TurnId(f"t{place}")
        ten = results(words, 10)
        store.open_turn(
            turn_id=turn, owner="runtime", text_digest="", message=message(f"{turn}/user", "user", "go", turn), at=NOW
        )
        store.record_calls(turn_id=turn, text="", calls=calls_of(ten), usage=Usage(), at=NOW)
        syncs.append(elapsed_ms(raw.sync))
        commits.append(elapsed_ms(lambda: store.record_results(turn_id=turn, results=ten, at=NOW)))  # noqa: B023
        done = message(f"{turn}/reply", "assistant", "done", turn)
        store.finish_turn(turn_id=turn, reply=Reply(turn_id=turn, text="done"), messages=[done], at=NOW)
        if store.wal_bytes > 32 * 1024:
            store.tidy()
    store.close()
    return commits, syncs


def closed_bytes(path: Path, words: Words, turns: int, *, with_checkpoints: bool) -> int:
    """Size of the closed file after ten-round turns, or after the same message rows alone."""
    store = new_store(path)
    for place in range(turns):
        turn = TurnId(f"t{place}")
        store.open_turn(
            turn_id=turn, owner="runtime", text_digest="", message=message(f"{turn}/user", "user", "go", turn), at=NOW
        )
        rows = []
        for number in range(10):
            one = results(words, 1, number)
            if with_checkpoints:
                store.record_calls(turn_id=turn, text="", calls=calls_of(one), usage=Usage(), at=NOW)
                store.record_results(turn_id=turn, results=one, at=NOW)
            rows.append(message(f"{turn}/{number}", "assistant", "", turn))
            rows.append(message(f"{turn}/{number}/0", "tool", one[0].preview, turn))
        rows.append(message(f"{turn}/reply", "assistant", "done", turn))
        reply = Reply(turn_id=turn, text="done")
        store.finish_turn(turn_id=turn, reply=reply, messages=rows, at=NOW)
        if store.wal_bytes > 32 * 1024:
            store.tidy()
    store.tidy()
    store.close()
    return path.stat().st_size


def dormant_bytes(path: Path, words: Words) -> int:
    """Size of the closed file of a conversation of 20 messages."""
    store = new_store(path)
    for place in range(10):
        turn = TurnId(f"t{place}")
        user = message(f"{turn}/user", "user", words.text(200), turn)
        store.open_turn(turn_id=turn, owner="runtime", text_digest="d" * 64, message=user, at=NOW)
        text = words.text(200)
        rows = [message(f"{turn}/reply", "assistant", text, turn)]
        store.finish_turn(turn_id=turn, reply=Reply(turn_id=turn, text=text), messages=rows, at=NOW)
    store.tidy()
    store.close()
    return path.stat().st_size


def send_times(agent: Agent, words: Words, n: int, raw: RawDisk) -> tuple[list[float], list[float]]:
    """Times of a whole `send` without tools, and of the raw disk in between."""
    chat = agent.conversation("c")
    for _ in range(10):
        chat.send(words.text(200))
    while chat.inspect().outbox.get("index"):  # the processes that index messages are being started
        time.sleep(0.1)
    sends, syncs = [], []
    for _ in range(n):
        text = words.text(200)
        sends.append(elapsed_ms(lambda: chat.send(text)))  # noqa: B023
        syncs.append(elapsed_ms(raw.sync))
    return sends, syncs


def remembering(runtime: Runtime) -> Agent:
    """An agent that has memories already."""
    agent = runtime.agent("remembering", model=INSTANT)
    for number in range(MEMORIES):
        agent.memories.remember(f"fact.{number}", f"Fact number {number} is about the number {number * number}")
    return agent


def tool_round_times(runtime: Runtime, words: Words, n: int, without_tools_ms: float) -> list[float]:
    """Times of one tool round, from turns of several."""
    steps = tuple(CallTools((("instant", {"place": place}),)) for place in range(ROUNDS))
    script = Script((Rule(None, (*steps, Say("done"))),))
    chat = runtime.agent("rounds", model=script, tools=[instant]).conversation("c")
    chat.send("warm up")
    return [(elapsed_ms(lambda: chat.send(words.text(200))) - without_tools_ms) / ROUNDS for _ in range(n)]


def live_pss_mib(runtime: Runtime, count: int) -> float:
    """Median memory of live conversations after a turn with a tool: proportional set size."""
    script = Script((Rule(None, (CallTools((("instant", {"place": 1}),)), Say("done"))),))
    agent = runtime.agent("live", model=script, tools=[instant])
    chats = [agent.conversation(f"c{place}") for place in range(count)]
    for chat in chats:
        chat.send("go")
    return statistics.median(pss_mib(chat.inspect().pid) for chat in chats)


def pss_mib(pid: int) -> float:
    """Memory of a process, what it shares divided among those that share it."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} tells no Pss")


@contextmanager
def benchmark_folder() -> Iterator[Path]:
    """A folder on the disk of the working directory, which goes afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=".benchmark-", dir=Path.cwd()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Measure and report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--n", type=int, default=200, help="measurements of each kind")
    options.add_argument("--churn", type=int, default=1000, help="ten-round turns of the file that is to stay small")
    options.add_argument("--live", type=int, default=20, help="live conversations whose memory is measured")
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    words = Words(chosen.seed)
    with benchmark_folder() as folder:
        commits, syncs = checkpoint_times(folder, words, chosen.n)
        dormant = dormant_bytes(folder / "dormant.duckdb", words)
        sizes = {
            (turns, with_checkpoints): closed_bytes(
                folder / f"{turns}-{with_checkpoints}.duckdb",
                Words(chosen.seed),
                turns,
                with_checkpoints=with_checkpoints,
            )
            for turns in (1, chosen.churn)
            for with_checkpoints in (True, False)
        }
        ray_dir = tempfile.mkdtemp(prefix="pd-")
        with connect(folder / "data", settings={"ray": {"temp_dir": ray_dir}}) as runtime:
            raw = RawDisk(folder / "raw2", 30_000)
            sends, send_syncs = send_times(runtime.agent("sender", model=INSTANT), words, chosen.n, raw)
            send_ms = statistics.median(sends)
            rounds = tool_round_times(runtime, words, max(5, chosen.n // 10), send_ms)
            pss = live_pss_mib(runtime, chosen.live)
            recalling, _ = send_times(remembering(runtime), words, chosen.n, raw)
            forgetful, _ = send_times(runtime.agent("forgetful", model=INSTANT, memory=False), words, chosen.n, raw)
        shutil.rmtree(ray_dir, ignore_errors=True)
    sync_ms, send_sync_ms = statistics.median(syncs), statistics.median(send_syncs)
    commit_ms = statistics.median(commits)
    report(
        [
            Figure(key="fdatasync_ms_p50", value=sync_ms, meaning="raw write and fdatasync of 30 KB"),
            Figure(key="checkpoint_ms_p50", value=commit_ms, meaning="committing 10 results of 3,000 characters"),
            Figure(
                key="checkpoint_excess_ms",
                value=commit_ms - 1.5 * sync_ms,
                meaning="that, less 1.5 fdatasyncs",
                goal=1,
            ),
            Figure(key="turn_overhead_ms_p50", value=send_ms, meaning="whole send, instant model, no tools"),
            Figure(
                key="turn_overhead_excess_ms",
                value=send_ms - 3 * send_sync_ms,
                meaning="that, less 3 fdatasyncs measured beside it",
                goal=8,
            ),
            Figure(
                key="turn_with_recall_ms_p50",
                value=statistics.median(recalling),
                meaning=f"the same with {MEMORIES} memories to recall from",
            ),
            Figure(
                key="turn_without_memory_ms_p50",
                value=statistics.median(forgetful),
                meaning="the same of an agent without memory",
            ),
            Figure(key="tool_round_ms_p50", value=statistics.median(rounds), meaning="one round of an instant tool"),
            Figure(key="live_pss_mib", value=pss, meaning=f"median of {chosen.live} live conversations", goal=85),
            Figure(key="dormant_bytes_20_messages", value=dormant, meaning="closed file", goal=96 * 1024),
            Figure(
                key="turn_disk_bytes_after",
                value=sizes[1, True] - sizes[1, False],
                meaning="10-round turn, beyond its message rows",
                goal=64 * 1024,
            ),
            Figure(
                key="checkpoint_churn_bytes",
                value=sizes[chosen.churn, True] - sizes[chosen.churn, False],
                meaning=f"after {chosen.churn:,} such turns, beyond their rows",
            ),
        ],
        {"n": chosen.n, "seed": chosen.seed, "load": os.getloadavg()[0]},
    )


if __name__ == "__main__":
    main()
