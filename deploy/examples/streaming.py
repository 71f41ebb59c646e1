"""Replies in pieces, with `for` and with `async for`, and several conversations side by side."""

import asyncio
import sys

from perdure.actors import Agent, connect, tool
from perdure.actors.testing import CallTools, Rule, Say, Script


@tool(idempotent=True)
def look_up(topic: str) -> str:
    """Look something up."""
    return f"everything about {topic}"


# A script in place of a model, so that there is a tool to be seen; a function of this file travels with each call.
script = Script((Rule(None, (CallTools((("look_up", {"topic": "tides"}),)), Say("It is mostly the moon."))),))


def chat_with(agent: Agent) -> None:
    """What a terminal would do."""
    told = ""
    for event in agent.conversation("live").stream("Why are there tides?"):
        match event.type:
            case "text":
                told += event.text
                print(event.text, end="|", flush=True)
            case "restarted":  # a crash, after which the model says something else: begin anew
                told = ""
                print("\n--")
            case "tool_started" | "tool_finished":
                print(event.type, event.call.name)
            case "finished":
                print("\nstored as told:", told == event.reply.text)


async def serve(agent: Agent) -> None:
    """What a server would do; every call has an awaitable form, `call.pending(…)`."""
    chats = [await agent.conversation.pending(f"visitor-{number}") for number in range(3)]
    replies = await asyncio.gather(*(chat.send.pending("Why are there tides?") for chat in chats))
    print("side by side:", {reply.text for reply in replies})
    kinds = [event.type async for event in chats[0].stream("And why twice a day?")]
    print("events:", " ".join(dict.fromkeys(kinds)))


with connect(sys.argv[1] if len(sys.argv) > 1 else "perdure-data") as runtime:
    guide = runtime.agent("guide", model=script, tools=[look_up])
    chat_with(guide)
    asyncio.run(serve(guide))
