"""Many clients at once neither fail nor lose an update.

Sources: mem0ai/mem0#7196 and langchain-ai/langgraph#8136 ("database is locked" with readers and one writer).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from perdure.actors.testing import Rule, Say, Script


def test_sixteen_readers_and_sixteen_writers_of_a_few_conversations_all_succeed(runtime, name):
    agent = runtime.agent(name, model=Script((Rule(None, (Say("ok"),)),)))
    chats = [agent.conversation(f"c{i}") for i in range(3)]

    def write(client: int) -> int:
        for i in range(4):
            chats[client % 3].send(f"{client}-{i}", turn_id=f"{client}-{i}", timeout_s=90)
        return client

    def read(client: int) -> int:
        seen = 0
        for _ in range(8):
            rows = chats[client % 3].history(1000)
            assert [row.seq for row in rows] == list(range(len(rows)))
            assert len(rows) >= seen
            seen = len(rows)
        return client

    with ThreadPoolExecutor(32) as pool:
        writers = [pool.submit(write, client) for client in range(16)]
        readers = [pool.submit(read, client) for client in range(16)]
        for future in writers + readers:
            future.result(120)
    for place, chat in enumerate(chats):
        said = [row.content for row in chat.history(1000) if row.role == "user"]
        mine = [client for client in range(16) if client % 3 == place]
        assert sorted(said) == sorted(f"{client}-{i}" for client in mine for i in range(4))
        for client in mine:
            assert [text for text in said if text.startswith(f"{client}-")] == [f"{client}-{i}" for i in range(4)]
