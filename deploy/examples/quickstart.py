"""An agent that knows what you told it, also after a restart: run it twice. It needs no key and no network."""

import sys

from perdure.actors import connect

with connect(sys.argv[1] if len(sys.argv) > 1 else "perdure-data") as runtime:
    agent = runtime.agent("assistant")  # the embedded model; model="openai/gpt-4o-mini" asks a language model
    chat = agent.conversation("support-42", contact="telegram:1234")
    chat.send("My name is Ana and I love TypeScript", turn_id="msg-981")  # sent again: the stored reply
    reply = chat.send("What is my name, and what do I love?")
    print(reply.text)
    print(len(chat.history()), "messages on disk")
