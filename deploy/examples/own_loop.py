"""A model loop of your own: Perdure keeps the turn, the context and the results; what you call is up to you.

Kill it anywhere and start it again: it goes on where it was, since the turn has the same id.
"""

import sys
from typing import Any

from perdure.actors import connect


def ask_model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Stands for a call to any model; the messages are in OpenAI's chat form."""
    if messages[-1]["role"] == "tool":
        return {"text": "It is booked, for 8 pm."}
    return {"calls": [{"call_id": "call-1", "name": "book_table", "arguments": {"people": 2}}]}


def run_tool(call: dict[str, Any]) -> str:
    """Stands for your tools."""
    return f"a table for {call['arguments']['people']} at 8 pm"


with connect(sys.argv[1] if len(sys.argv) > 1 else "perdure-data") as runtime:
    chat = runtime.agent("waiter", system_prompt="You book tables.").conversation("dinner")
    turn = chat.begin_turn("Book a table for two", turn_id="dinner-7")
    while turn.reply is None:
        answer = ask_model(turn.messages)
        if "calls" in answer:
            turn.record_tool_round([{**call, "result": run_tool(call)} for call in answer["calls"]])
        else:
            turn.finish(answer["text"])
    print(turn.reply.text)
    print("history:", [message.role for message in chat.history()])
