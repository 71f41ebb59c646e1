"""`python -m tests.crash.intruder COUNT`: a process that opens conversations behind the runtime's back.

Where the lock of a file holds, it is refused; where it does not, it is the second opener that a campaign is to find.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from datetime import UTC, datetime

from perdure.storage.conversation_store import ConversationStore
from perdure.storage.errors import StorageError
from perdure.storage.layout import conversation_path
from perdure.storage.records import AgentName, ConversationId, ConversationIdentity

from .place import place_in_environment
from .turn_senders import AGENT

HELD_S = 0.2
PAUSE_S = 0.2


def main() -> None:
    """Open one after the other until the campaign stops."""
    place = place_in_environment()
    number = 0
    while not place.stop.exists():
        identity = ConversationIdentity(
            agent=AgentName(AGENT), conversation_id=ConversationId(f"conversation-{number % int(sys.argv[1])}")
        )
        number += 1
        path = conversation_path(place.data, identity.agent, identity.conversation_id)
        if not path.exists():
            continue
        with suppress(StorageError):
            store = ConversationStore.open(path, identity, datetime.now(UTC))
            time.sleep(HELD_S)
            store.close()
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
