"""Tools, turn ids of your own, and what a driver does about errors: it sends the same turn again.

The model is a script that fails once, after its tools have finished. Another try goes on from their stored results.
"""

import sys

from flight_tools import hold_seat, search_flights

from perdure.actors import ConversationHandle, connect
from perdure.actors.testing import CallTools, FailWith, Rule, Say, Script
from perdure.storage.errors import PerdureError
from perdure.storage.records import Reply

flight = {"origin": "Porto", "destination": "Lisbon", "day": "2026-03-12"}
seat = {"flight": "TP 1957", "seat": "14C"}
script = Script(
    (
        Rule(
            None,
            (
                CallTools((("search_flights", flight),)),
                CallTools((("hold_seat", seat),), text="TP 1957 costs 64 EUR."),
                FailWith("the provider is overloaded", times=1),
                Say("I hold seat 14C for you."),
            ),
        ),
    )
)


def send(chat: ConversationHandle, text: str, turn_id: str, tries: int = 5) -> Reply:
    """Send until there is a reply. The turn id comes from where the message came from, such as a chat's message id."""
    for left in reversed(range(tries)):
        try:
            return chat.send(text, turn_id=turn_id, timeout_s=60)
        except PerdureError as error:
            if not error.retryable or left == 0:
                raise
            print("not yet:", error)
    raise AssertionError("the last try returns or raises")


with connect(sys.argv[1] if len(sys.argv) > 1 else "perdure-data") as runtime:
    agent = runtime.agent("travel", model=script, tools=[search_flights, hold_seat])
    chat = agent.conversation("trip-1")
    reply = send(chat, "A seat to Lisbon on 12 March, please", turn_id="telegram-5512")
    print(reply.text)
    print("resumed:", reply.resumed, "| tools:", [(call.name, call.status) for call in reply.tool_calls])
    print("tool results:", [message.content for message in chat.history() if message.role == "tool"])
    print("the same again:", send(chat, "A seat to Lisbon on 12 March, please", turn_id="telegram-5512") == reply)
