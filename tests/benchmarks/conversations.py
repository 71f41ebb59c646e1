"""What it costs that conversations come and go: time to wake one, to connect, to start cold; memory under a cap.

`python -m tests.benchmarks.conversations [--n 300] [--cap 40] [--seed 0]`. `connect()` to a running host is measured
in fresh processes that have imported `perdure.actors.connect` and Ray before; how long these imports take is printed
beside it. The cold start is measured from a fresh process's first line, imports included.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from perdure.actors import Agent, ConversationHandle, Runtime, connect
from perdure.actors.host_address import wait_until_unserved
from perdure.actors.placement import ConversationPlace
from tests.crash.many_conversations import THREADS, Opened, open_many

from .instant_model import NAME as INSTANT
from .report import Figure, report
from .turn import benchmark_folder, elapsed_ms, live_pss_mib

COLD_START = """
import time
started = time.perf_counter()
import sys
from perdure.actors import connect
with connect(sys.argv[1]) as runtime:
    runtime.agent("a").conversation("c").send("Hello")
    print(time.perf_counter() - started)
"""
RECONNECT = """
import json, sys, time
times = [time.perf_counter()]
from perdure.actors import connect
times.append(time.perf_counter())
from perdure.actors.ray_environment import prepare_ray
prepare_ray(with_token=True)
import ray
times.append(time.perf_counter())
runtime = connect(sys.argv[1])
times.append(time.perf_counter())
runtime.close()
print(json.dumps([1000 * (after - before) for before, after in zip(times, times[1:])]))
"""
END_S = 10.0


def in_fresh_process(code: str, data_dir: Path) -> Any:
    """What a script prints last, as JSON."""
    command = [sys.executable, "-c", code, str(data_dir)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ended.stdout.splitlines()[-1])


def cold_start_s(folder: Path) -> float:
    """From a fresh process's first line to the first reply, with a new data directory."""
    took_s = float(in_fresh_process(COLD_START, folder))
    wait_until_unserved(folder / "run")
    return took_s


def reconnect_ms(data_dir: Path, n: int) -> tuple[float, float, float]:
    """Medians: importing `connect`, importing Ray, and `connect()` itself."""
    times = [in_fresh_process(RECONNECT, data_dir) for _ in range(n)]
    ours, rays, connecting = (statistics.median(column) for column in zip(*times, strict=True))
    return ours, rays, connecting


def passivate(chat: ConversationHandle) -> None:
    """End a conversation's process in order, and wait until it is gone."""
    import ray

    where = ConversationPlace(agent=chat.agent.name, conversation_id=chat.conversation_id, contact=None)
    pid = chat.inspect().pid
    actor: Any = ray.get_actor(where.actor_name, namespace=chat.agent.runtime.place.namespace)
    with suppress(ray.exceptions.ActorDiedError):
        while not ray.get(actor.passivate.options(max_task_retries=0).remote(0.0), timeout=END_S):
            time.sleep(0.05)  # it declines while it has messages indexed
    _wait_for_end(pid)


def kill(chat: ConversationHandle) -> None:
    """End a conversation's process by SIGKILL."""
    os.kill(chat.inspect().pid, signal.SIGKILL)


def activation_ms(chat: ConversationHandle, n: int, chance: random.Random) -> tuple[float, float]:
    """Medians from a call to its reply: to a dormant conversation, and to one whose process was just killed."""
    dormant: list[float] = []
    killed: list[float] = []
    for number in range(n):
        for end, times in ((passivate, dormant), (kill, killed)):
            end(chat)
            if end is passivate:
                time.sleep(chance.uniform(0.3, 0.6))  # the next one does not come at once
            times.append(elapsed_ms(lambda: chat.send(f"wake up {number}")))  # noqa: B023
    return statistics.median(dormant), statistics.median(killed)


def _wait_for_end(pid: int) -> None:
    limit = time.monotonic() + END_S
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < limit, f"process {pid} has not ended within {END_S} s"
        time.sleep(0.01)


def end_all(runtime: Runtime, agent: Agent) -> None:
    """Passivate what is live of an agent, so that it counts for nobody else."""
    for record in runtime.conversations(agent.name, limit=1000):
        passivate(agent.conversation(record.conversation_id))


def open_under_cap(runtime: Runtime, ray_dir: Path, n: int) -> Opened:
    """Open so many conversations, one turn each."""
    return open_many(runtime.agent("many", model=INSTANT), n, ray_dir, resume=0)


def main() -> None:
    """Measure and report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--n", type=int, default=300, help="conversations to open")
    options.add_argument("--cap", type=int, default=40, help="of live conversations")
    options.add_argument("--times", type=int, default=15, help="measurements of each time")
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    ray_dir = Path(tempfile.mkdtemp(prefix="pd-"))
    settings = {"ray": {"temp_dir": str(ray_dir)}, "conversations": {"live_cap": chosen.cap}}
    with benchmark_folder() as folder:
        cold_s = cold_start_s(folder / "cold")
        with connect(folder / "data", settings=settings) as runtime:
            sleeper = runtime.agent("sleeper", model=INSTANT).conversation("c")
            sleeper.send("warm up")
            dormant_ms, killed_ms = activation_ms(sleeper, chosen.times, random.Random(chosen.seed))
            passivate(sleeper)
            ours_ms, ray_ms, connect_ms = reconnect_ms(folder / "data", chosen.times)
            live_mib = live_pss_mib(runtime, min(20, chosen.cap))
            end_all(runtime, runtime.agent("live"))
            opened = open_under_cap(runtime, ray_dir, chosen.n)
        wait_until_unserved(folder / "data" / "run")
    shutil.rmtree(ray_dir, ignore_errors=True)
    for error in opened.errors:
        print(error)
    most_processes = chosen.cap + THREADS
    report(
        [
            Figure(
                key="activation_ms_p50", value=dormant_ms, meaning="call to a dormant conversation to reply", goal=600
            ),
            Figure(
                key="activation_after_kill_ms_p50", value=killed_ms, meaning="SIGKILL, then a call at once, to reply"
            ),
            Figure(key="opened", value=opened.replied, meaning=f"of {chosen.n} conversations, from {THREADS} threads"),
            Figure(
                key="peak_pss_mib",
                value=opened.peak_pss_mib,
                meaning="their processes together; goal: cap and activations under way x live size, and a fifth",
                goal=most_processes * live_mib * 1.2,
            ),
            Figure(key="open_errors", value=len(opened.errors), meaning="of calls that opened them", goal=0),
            Figure(key="reconnect_ms_p50", value=connect_ms, meaning="connect() to a running host", goal=200),
            Figure(key="cold_start_s", value=cold_s, meaning="fresh process, imports included, to reply", goal=15),
        ],
        {
            "n": chosen.n,
            "cap": chosen.cap,
            "live_pss_mib": round(live_mib, 1),
            "peak_processes": opened.peak_processes,
            "opening_s": round(opened.seconds),
            "import_connect_ms": round(ours_ms),
            "import_ray_ms": round(ray_ms),
        },
    )


if __name__ == "__main__":
    main()
