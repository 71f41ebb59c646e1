"""Facts that outlive a conversation: told in one, known in another, corrected, and kept as history."""

import sys

from perdure.actors import connect

with connect(sys.argv[1] if len(sys.argv) > 1 else "perdure-data") as runtime:
    agent = runtime.agent("concierge")  # its model remembers by tools of its own; here the driver does it
    monday = agent.conversation("monday", contact="telegram:ana")
    monday.memories.remember("home.city", "Ana lives in Lisbon", category="identity")
    monday.memories.remember("diet", "Ana eats no meat", category="preference")

    friday = agent.conversation("friday", contact="telegram:ana")  # another conversation of the same person
    print(friday.send("Where does Ana live?").text)

    done = friday.memories.remember("town", "Ana moved to Porto")  # another key, the same attribute of the same person
    print("replaced:", len(done.superseded))
    recalled = friday.memories.fused_recall("In which city does Ana live?", fill=False)
    print("found now:", [hit.memory.value for hit in recalled.hits if "Ana moved" in hit.memory.value])
    print("because:", recalled.hits[0].explanation)
    print("known once:", [memory.value for memory in friday.memories.history("home.city")])

    stranger = agent.conversation("saturday", contact="telegram:bob")
    print("Bob's:", stranger.memories.recall())
