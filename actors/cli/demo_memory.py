"""The part of the demonstration that is about memory: told in one conversation, known in another, corrected."""

from __future__ import annotations

from ...jobs.scripted_chat import CallTools, Rule, Say, Script
from ...storage.records import ContactId
from ..client.conversation import ConversationHandle
from ..client.runtime import Runtime

AGENT = "demo-memory"
TOLD = "Please note that I live in Lisbon"
CORRECTED = "I have moved: I live in Porto now"
QUESTION = "Where do I live?"
FIRST, SECOND = "Ana lives in Lisbon", "Ana lives in Porto"
KEY = "home.city"


def remembering_script() -> Script:
    """A model that remembers what it was told, as was written down beforehand."""
    return Script(
        (
            Rule("Lisbon", (_remember(FIRST), Say("I shall remember it. {result}"))),
            Rule("Porto", (_remember(SECOND), Say("Corrected. {result}"))),
        )
    )


def _remember(value: str) -> CallTools:
    return CallTools((("remember", {"key": KEY, "value": value, "category": "identity"}),))


class MemoryStory:
    """Four conversations of one person, two of them with a scripted model that calls `remember`."""

    def __init__(self, runtime: Runtime, run: str, wait_s: float) -> None:
        self._runtime = runtime
        self._run = run
        self._wait_s = wait_s
        self._contact = ContactId(f"demo:ana-{run}")

    def tell(self, where: str, text: str) -> str:
        """Tell the scripted model something, in a conversation of its own."""
        agent = self._runtime.agent(AGENT, model=remembering_script())
        return self._send(agent.conversation(f"{where}-{self._run}", contact=self._contact), where, text)

    def ask(self, where: str) -> str:
        """Ask the embedded model, in a conversation of its own: it knows nothing but what is remembered."""
        agent = self._runtime.agent(AGENT, model=None)
        return self._send(agent.conversation(f"{where}-{self._run}", contact=self._contact), where, QUESTION)

    def history(self) -> list[str]:
        """Everything that was ever remembered under the key, the oldest first."""
        memories = self._runtime.agent(AGENT).memories_of(self._contact)
        return [memory.value for memory in memories.history(KEY)]

    def found(self) -> list[str]:
        """All that recall finds of it."""
        memories = self._runtime.agent(AGENT).memories_of(self._contact)
        return [hit.memory.value for hit in memories.fused_recall(QUESTION).hits]

    def _send(self, chat: ConversationHandle, where: str, text: str) -> str:
        return chat.send(text, turn_id=f"{where}-{self._run}", timeout_s=self._wait_s).text
