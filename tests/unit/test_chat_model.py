"""A request on its way to the process that asks the model."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError

import pytest

from perdure.jobs.chat_model import ChatMessage, ChatRequest, ToolSpec
from perdure.storage.records import CallId, ToolCall

CALL = ToolCall(call_id=CallId("c1"), name="look", arguments="{}")
MESSAGES = (
    ChatMessage(role="system", content="Be kind."),
    ChatMessage(role="user", content="Look!", speaker="Ana", seq=0),
    ChatMessage(role="assistant", content="", tool_calls=(CALL,), seq=1),
    ChatMessage(role="tool", content="blue", call_id=CallId("c1"), seq=2),
)


@pytest.mark.parametrize("messages", [(), MESSAGES[:1], MESSAGES])
def test_a_request_arrives_in_another_process_as_it_was_sent(messages: tuple[ChatMessage, ...]) -> None:
    look = ToolSpec(name="look", description="Looks.", parameters={"type": "object"}, idempotent=True)
    sent = ChatRequest(model="openai/x", messages=messages, tools=(look,), timeout_s=7.0)
    arrived = pickle.loads(pickle.dumps(sent))
    assert arrived == sent
    assert [type(message) for message in arrived.messages] == [ChatMessage] * len(messages)


def test_messages_that_arrived_cannot_be_changed() -> None:
    arrived = pickle.loads(pickle.dumps(ChatRequest(model=None, messages=MESSAGES)))
    assert hash(arrived.messages) == hash(MESSAGES)
    with pytest.raises(FrozenInstanceError):
        arrived.messages[0].content = "Be cruel."
