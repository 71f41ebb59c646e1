"""A test of your own agent: real turns, tools and files, in this process, without Ray and within a second.

Put such functions among your tests, where pytest gives them `tmp_path`; run as a script, this file calls them itself.
"""

import sys
import tempfile
from pathlib import Path

from perdure.actors import tool
from perdure.actors.testing import CallTools, FailWith, InProcessConversation, Rule, Say, Script
from perdure.storage.errors import ModelError

held: list[str] = []


@tool
def hold_seat(seat: str) -> str:
    """Hold a seat."""
    held.append(seat)
    return f"{seat} is held"


def test_the_agent_holds_a_seat_and_says_so(tmp_path: Path) -> None:
    script = Script((Rule("seat", (CallTools((("hold_seat", {"seat": "14C"}),)), Say("Your seat is 14C."))),))
    chat = InProcessConversation(tmp_path / "chat.duckdb", model=script, tools=[hold_seat])
    reply = chat.send("A seat, please", turn_id="t1")
    assert reply.text == "Your seat is 14C."
    assert [(call.name, call.status) for call in reply.tool_calls] == [("hold_seat", "succeeded")]
    assert [message.content for message in chat.history() if message.role == "tool"] == ["14C is held"]
    chat.restart()  # as after a crash: from the file alone
    assert chat.send("A seat, please", turn_id="t1") == reply
    assert held == ["14C"]
    chat.close()


def test_a_failing_model_costs_no_second_seat(tmp_path: Path) -> None:
    steps = (CallTools((("hold_seat", {"seat": "15A"}),)), FailWith("overloaded", times=1), Say("Your seat is 15A."))
    chat = InProcessConversation(tmp_path / "failing.duckdb", model=Script((Rule(None, steps),)), tools=[hold_seat])
    try:
        chat.send("A seat, please", turn_id="t1")
    except ModelError as error:
        print("as expected:", error)
    assert chat.send("A seat, please", turn_id="t1").resumed
    assert held.count("15A") == 1
    chat.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        test_the_agent_holds_a_seat_and_says_so(Path(folder))
        test_a_failing_model_costs_no_second_seat(Path(folder))
    print("both tests passed")
