"""What semantic memory costs: remembering, recalling and its parts, at a number of memories of one agent.

`python -m tests.benchmarks.memory [--n 10000] [--seed 0]`. The agent is one among three others that have memories of
their own. Everything goes through the product's calls from this process. The floors are the bare libraries over the
same rows, in this process: what no product built on them can be faster than. `fdatasync` is measured beside the
writes; what belongs together is measured in turns, since the machine changes its pace.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from perdure.actors import Agent, Runtime, connect
from perdure.actors.host_address import wait_until_unserved
from perdure.actors.placement import index_actor, memory_actor, models_actor
from perdure.jobs.index_access import Search
from perdure.jobs.memory_requests import RecallQuery
from perdure.storage.index_scope import IndexScope
from perdure.storage.layout import index_path
from perdure.storage.memory_keys import AgentId, Visibility
from perdure.storage.records import AgentName

from .report import Figure, report
from .turn import RawDisk, benchmark_folder, elapsed_ms

SUBJECTS = ("Ana", "Bruno", "Chiara", "Daoud", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas")
VERBS = ("likes", "avoids", "collects", "repairs", "studies", "plays", "sells", "paints", "teaches", "plans")
THINGS = ("maps", "violins", "orchids", "bicycles", "clocks", "kites", "novels", "stamps", "boats", "lamps")
PLACES = ("Lisbon", "Porto", "Oslo", "Graz", "Kyoto", "Quito", "Accra", "Turin", "Riga", "Malmo")
OTHERS = 3
THREADS = 32
UPSERTS = 5000


def sentence(number: int) -> str:
    """A fact that differs from every other one."""
    parts = (SUBJECTS[number % 10], VERBS[number // 10 % 10], THINGS[number // 100 % 10], PLACES[number // 1000 % 10])
    return f"{parts[0]} {parts[1]} {parts[2]} in {parts[3]}, as noted on page {number}"


def query(chance: random.Random) -> str:
    """A question in the words of the facts."""
    return f"Who {chance.choice(VERBS)} {chance.choice(THINGS)} in {chance.choice(PLACES)}?"


def fill(agent: Agent, numbers: Sequence[int], threads: int = THREADS) -> float:
    """Remember so many facts from several threads; facts a second."""
    waiting = iter(numbers)
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                number = next(waiting, None)
            if number is None:
                return
            agent.memories.remember(f"fact.{number}", sentence(number), timeout_s=600)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    began = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return len(numbers) / (time.perf_counter() - began)


def times_of(body: Callable[[int], object], n: int) -> list[float]:
    """Milliseconds of each call."""
    return [elapsed_ms(lambda: body(number)) for number in range(n)]  # noqa: B023


def p95(times: Sequence[float]) -> float:
    """The 95th percentile."""
    return sorted(times)[int(0.95 * (len(times) - 1))]


class Bench:
    """One agent's memories, and the ways to ask for them."""

    def __init__(self, runtime: Runtime, agent: Agent, seed: int) -> None:
        import ray

        self._ray = ray
        self._runtime = runtime
        self._agent = agent
        self._agent_id = AgentId(agent.id)
        self._visible = Visibility.of_contact(self._agent_id, None)
        self._scope = IndexScope(agent=AgentName(self._agent_id))
        self._chance = random.Random(seed)
        self._queries = [query(self._chance) for _ in range(64)]
        models = models_actor(runtime.place, 0)
        self._vectors: list[NDArray[np.float32]] = [
            found.vectors[0] for found in ray.get(models.embed.remote(self._queries, True))
        ]
        self._vector_index, self._keyword_index = (index_actor(runtime.place, kind) for kind in ("vector", "keyword"))

    def recall(self, number: int) -> Any:
        """Fused, with the query's vector at hand."""
        place = number % 64
        asked = RecallQuery(
            visible=self._visible, text=self._queries[place], vector=self._vectors[place].tobytes(), is_filled=True
        )
        return self._runtime.memory_call("recall", asked, timeout_s=60)

    def recall_with_embedding(self, number: int) -> Any:
        """Fused, the query embedded on the way."""
        return self._agent.memories.fused_recall(f"{self._queries[number % 64]} {number}")

    def vector(self, number: int) -> Any:
        """The vector channel alone."""
        search = Search(self._vectors[number % 64], self._scope, 30)
        return self._ray.get(self._vector_index.search.remote("memory", [search]))

    def keyword(self, number: int) -> Any:
        """The keyword channel alone."""
        search = Search(self._queries[number % 64], self._scope, 30)
        return self._ray.get(self._keyword_index.search.remote("memory", [search]))

    def exact(self, number: int) -> Any:
        """By key."""
        return self._agent.memories.recall(f"fact.{number}")

    def remember(self, number: int) -> Any:
        """A new fact."""
        return self._agent.memories.remember(f"new.{number}", f"{sentence(number)}, once more")

    def with_clients(self, n: int, clients: int) -> list[float]:
        """Recalls from so many threads at once."""
        times: list[float] = []

        def work() -> None:
            times.extend(times_of(self.recall, n // clients))

        workers = [threading.Thread(target=work) for _ in range(clients)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return times

    def answers(self) -> bool:
        """Do all channels answer?"""
        return not self.recall(0).unanswered

    def hot_bytes(self) -> int:
        """Of the vectors that are kept for search: of all agents, since each write looks for what is like it."""
        return int(self._ray.get(self._vector_index.hot_bytes.remote()))

    def rss_mib(self) -> float:
        """Of the processes that own memories and their indexes."""
        actors = (memory_actor(self._runtime.place), self._vector_index, self._keyword_index)
        pids = [self._ray.get(actor.pid.remote()) for actor in actors]
        kib = [
            int(line.split()[1])
            for pid in pids
            for line in Path(f"/proc/{pid}/status").read_text().splitlines()
            if line.startswith("VmRSS")
        ]
        return sum(kib) / 1024


def floors(vectors: NDArray[np.float32], queries: Sequence[NDArray[np.float32]], folder: Path) -> tuple[float, float]:
    """Milliseconds of a bare search over the same number of vectors: numpy, and LanceDB."""
    import lancedb
    import pyarrow as pa  # type: ignore[import-untyped]

    def by_numpy(number: int) -> object:
        scores = vectors @ queries[number % len(queries)]
        return np.argpartition(scores, -30)[-30:]

    rows = pa.table(
        {
            "id": pa.array([str(number) for number in range(len(vectors))]),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1]),
        }
    )
    table = lancedb.connect(folder).create_table("bare", rows)

    def by_lancedb(number: int) -> object:
        return table.search(queries[number % len(queries)]).limit(30).to_arrow()

    return statistics.median(times_of(by_numpy, 100)), statistics.median(times_of(by_lancedb, 50))


def disk_bytes(data_dir: Path) -> int:
    """What memories and their indexes take."""
    files = [*index_path(data_dir).rglob("*"), *data_dir.glob("memory.duckdb*")]
    return sum(file.stat().st_size for file in files if file.is_file())


def main() -> None:
    """Measure and report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--n", type=int, default=10_000, help="memories of the agent")
    options.add_argument("--times", type=int, default=200, help="measurements of each time")
    options.add_argument("--upserts", type=int, default=UPSERTS, help="single upserts, to see what they leave")
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    ray_dir = Path(tempfile.mkdtemp(prefix="pd-"))
    with benchmark_folder() as folder:
        with connect(folder / "data", settings={"ray": {"temp_dir": str(ray_dir)}}) as runtime:
            figures, extra = measure(runtime, folder, chosen.n, chosen.times, chosen.upserts, chosen.seed)
        wait_until_unserved(folder / "data" / "run")
    shutil.rmtree(ray_dir, ignore_errors=True)
    report(figures, extra)


def measure(
    runtime: Runtime, folder: Path, n: int, times: int, upserts: int, seed: int
) -> tuple[list[Figure], dict[str, Any]]:
    """All figures."""
    data_dir = folder / "data"
    for number in range(OTHERS):
        fill(runtime.agent(f"other-{number}"), range(max(10, n // 10)))
    agent = runtime.agent("measured")
    per_s = fill(agent, range(n))
    bench = Bench(runtime, agent, seed)
    assert bench.answers()
    settle(runtime)
    disk, hot_bytes = disk_bytes(data_dir), bench.hot_bytes()
    memories = n + OTHERS * max(10, n // 10)
    for body in (bench.recall, bench.vector, bench.keyword):
        times_of(body, 20)
    recalls = times_of(bench.recall, times)
    embedded = times_of(bench.recall_with_embedding, times)
    vector, keyword, exact = (times_of(body, times) for body in (bench.vector, bench.keyword, bench.exact))
    clients = bench.with_clients(max(times, 80), 8)
    raw = RawDisk(folder / "raw", 30_000)
    syncs: list[float] = []
    remembered: list[float] = []
    for number in range(times // 2):
        syncs.append(elapsed_ms(raw.sync))
        remembered.append(elapsed_ms(lambda: bench.remember(number)))  # noqa: B023
    sync_ms, remember_ms = statistics.median(syncs), statistics.median(remembered)
    vectors = np.random.default_rng(seed).standard_normal((n, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    numpy_ms, lancedb_ms = floors(vectors, list(vectors[:64]), folder / "bare")
    settle(runtime)
    before = statistics.median([*times_of(bench.vector, times), *times_of(bench.keyword, times)])
    for number in range(upserts):
        agent.memories.remember(f"fact.{number % n}", f"{sentence(number)}, seen {uuid4().hex[:6]}", timeout_s=600)
    after = statistics.median([*times_of(bench.vector, times), *times_of(bench.keyword, times)])
    files = sum(1 for file in index_path(data_dir).rglob("*") if file.is_file())
    figures = [
        Figure(key="remember_over_fdatasync", value=remember_ms / sync_ms, meaning="one client, to one fdatasync"),
        Figure(key="remember_ms_p50", value=remember_ms, meaning="one client, verified and in every index"),
        Figure(key="remember_excess_ms", value=remember_ms - 2 * sync_ms, meaning="less 2 fdatasyncs", goal=25),
        Figure(key="remember_per_s_32_clients", value=per_s, meaning="facts a second while filling"),
        Figure(key="recall_ms_p50", value=statistics.median(recalls), meaning="fused, vector at hand", goal=8),
        Figure(key="recall_ms_p95", value=p95(recalls), meaning="the same"),
        Figure(
            key="recall_with_embedding_ms_p50", value=statistics.median(embedded), meaning="query embedded", goal=16
        ),
        Figure(key="vector_ms_p50", value=statistics.median(vector), meaning="that channel alone"),
        Figure(key="keyword_ms_p50", value=statistics.median(keyword), meaning="that channel alone"),
        Figure(key="exact_ms_p50", value=statistics.median(exact), meaning="by key"),
        Figure(key="floor_numpy_ms_p50", value=numpy_ms, meaning="bare matrix product, in process"),
        Figure(key="floor_lancedb_ms_p50", value=lancedb_ms, meaning="bare flat search, in process"),
        Figure(key="disk_bytes_per_memory", value=disk / memories, meaning="file and indexes"),
        Figure(key="hot_bytes_per_10k", value=hot_bytes / memories * 10_000, meaning="vectors kept for search"),
        Figure(key="files_after_5000_upserts", value=files, meaning=f"in all tables, after {upserts}", goal=200),
        Figure(
            key="search_after_over_before_5000_upserts", value=after / before, meaning="vector and keyword", goal=1.5
        ),
        Figure(key="rss_mib", value=bench.rss_mib(), meaning="memory, vector and keyword processes"),
        Figure(key="recall_8_clients_ms_p50", value=statistics.median(clients), meaning="8 threads at once", goal=30),
    ]
    return figures, {"n": n, "seed": seed, "fdatasync_ms_p50": round(sync_ms, 4), "upserts": upserts}


def settle(runtime: Runtime) -> None:
    """Wait until the indexes have on disk what they were told."""
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        counts = runtime.memory_call("counts", timeout_s=60)
        if not any(counts.pending.values()):
            return
        time.sleep(0.2)


if __name__ == "__main__":
    main()
