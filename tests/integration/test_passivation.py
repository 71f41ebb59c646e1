"""Conversations that come and go: idle ones end, the next call finds them as they were."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from tests.fixtures.lean import without_index

BODY = """
    import sys, threading, time
    from perdure.actors import connect
    from perdure.actors.testing import Pause, Rule, Say, Script
    from perdure.actors.live_marks import live_conversations

    settings = {"conversations": {"passivate_after_s": 1.0, "live_cap": 3}}
    with connect(sys.argv[1], settings=settings) as runtime:
        script = Script((Rule("slow", (Pause(3), Say("slow"))), Rule(None, (Say("ok"),))))
        agent = runtime.agent("a", model=script)

        def live():
            return [len(live_conversations(f)) for f in (runtime.place.data_dir / "run" / "live").iterdir()][0]

        chat = agent.conversation("c")
        chat.send("one", turn_id="1")
        pid = chat.inspect().pid
        slow = agent.conversation("slow")
        slow_pid = slow.inspect().pid
        pending = slow.send.pending("slow")
        time.sleep(4)
        print("live", live())
        assert pending.result(30).text == "slow"
        assert chat.send("one", turn_id="1").text == "ok"
        assert chat.send("two").text == "ok"
        assert chat.inspect().pid != pid
        print("messages", len(chat.history()))
        for number in range(8):
            agent.conversation(f"many-{number}").send("hi")
        time.sleep(0.5)
        print("capped", live() <= 4)
        turn = chat.begin_turn("mine", turn_id="t")
        time.sleep(3)
        kept = chat.inspect()
        turn.finish("done")
        print("driver", len(chat.history()))
        errors = []

        def hammer(number):
            try:
                for i in range(6):
                    agent.conversation(f"h{number % 5}").send(f"{number}-{i}", turn_id=f"{number}-{i}")
                    time.sleep(0.3 * (number % 5))
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=hammer, args=(n,)) for n in range(8)]
        [t.start() for t in threads]; [t.join() for t in threads]
        print("errors", errors)
        total = sum(len([m for m in agent.conversation(f"h{n}").history() if m.role == "user"]) for n in range(5))
        print("total", total)
"""


def test_idle_conversations_end_those_beyond_the_cap_too_and_calls_just_work(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BODY), str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env=without_index(),
    )
    assert done.returncode == 0, done.stderr
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert said == {
        "live": "1",
        "messages": "4",
        "capped": "True",
        "driver": "6",
        "errors": "[]",
        "total": "48",
    }
