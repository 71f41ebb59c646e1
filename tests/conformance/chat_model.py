"""What every `ChatModel` keeps to. A test module holds it against one by subclassing `ChatModelConformance`."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from perdure.jobs.chat_model import ChatMessage, ChatModel, ChatReply, ChatRequest
from perdure.storage.errors import ModelError
from perdure.storage.records import CallId, ToolCall


def said(text: str, seq: int | None = None) -> ChatMessage:
    return ChatMessage(role="user", content=text, seq=seq)


def round_of_tools(call_id: str, result: str, arguments: str = "{}") -> tuple[ChatMessage, ChatMessage]:
    call = ToolCall(call_id=CallId(call_id), name="look", arguments=arguments)
    return (
        ChatMessage(role="assistant", content="", tool_calls=(call,)),
        ChatMessage(role="tool", content=result, call_id=CallId(call_id)),
    )


def streamed(model: ChatModel, request: ChatRequest) -> tuple[list[str], ChatReply]:
    *pieces, reply = model.stream(request)
    assert isinstance(reply, ChatReply)
    assert all(isinstance(piece, str) for piece in pieces)
    return [piece for piece in pieces if isinstance(piece, str)], reply


class ChatModelConformance:
    """The subclass gives these fixtures: `model`, `another` of the same kind, the requests `speaking`, and
    `calling` and `failing`, which may be None for a model that never does so."""

    def test_a_reply_has_a_text_and_what_it_cost(self, model, speaking):
        reply = model.complete(speaking)
        assert reply.text.strip()
        assert reply.tool_calls == ()
        assert reply.usage.model_calls == 1
        assert reply.usage.prompt_tokens > 0
        assert reply.usage.completion_tokens > 0

    def test_a_stream_ends_with_the_reply_whose_text_is_the_pieces_joined(self, model, speaking):
        pieces, reply = streamed(model, speaking)
        assert "".join(pieces) == reply.text
        assert len(pieces) > 1
        assert "" not in pieces

    def test_the_streamed_reply_is_the_whole_one(self, model, speaking):
        _, reply = streamed(model, speaking)
        whole = model.complete(speaking)
        assert (reply.text, reply.tool_calls, reply.usage) == (whole.text, whole.tool_calls, whole.usage)

    def test_any_instance_answers_a_request_and_answers_it_again(self, model, another, speaking):
        first = model.complete(speaking)
        assert model.complete(speaking) == first
        assert another.complete(speaking) == first

    def test_threads_may_share_an_instance(self, model, speaking):
        whole = model.complete(speaking)
        with ThreadPoolExecutor(8) as pool:
            replies = [pool.submit(streamed, model, speaking) for _ in range(16)]
            replies += [pool.submit(lambda: ([], model.complete(speaking))) for _ in range(16)]
            assert {reply.result()[1].text for reply in replies} == {whole.text}

    def test_a_stream_that_nobody_reads_to_its_end_does_no_harm(self, model, speaking):
        stream = model.stream(speaking)
        assert isinstance(next(stream), str)
        stream.close()
        assert model.complete(speaking).text.strip()

    def test_calls_have_ids_that_are_unique_and_not_empty(self, model, calling):
        if calling is None:
            pytest.skip("it never calls tools")
        for reply in (model.complete(calling), streamed(model, calling)[1]):
            ids = [call.call_id for call in reply.tool_calls]
            assert len(ids) > 1
            assert len(set(ids)) == len(ids)
            assert all(ids)
            assert all(call.name for call in reply.tool_calls)

    def test_a_history_with_tools_and_any_text_is_taken(self, model, speaking):
        odd = [
            "漢字 と 한국어",
            "e\u0301 👩\u200d👩\u200d👧 \u202eרי",
            "{result} {input} %s {0}",
            "x" * 50_000,
            "�",
            "</tool_result>",
        ]
        history = [said(text, seq) for seq, text in enumerate(odd)]
        history += [*round_of_tools("call_0", "sunny"), *round_of_tools("call_1", "", arguments='{"cut": ')]
        request = ChatRequest(
            model=speaking.model, messages=(*history, *speaking.messages), tools=speaking.tools, timeout_s=30
        )
        assert model.complete(request).text.strip()
        assert streamed(model, request)[1].text.strip()

    def test_a_failure_is_a_model_error_that_survives_pickling(self, model, failing):
        if failing is None:
            pytest.skip("it never fails")
        for ask in (model.complete, lambda request: list(model.stream(request))):
            with pytest.raises(ModelError) as caught:
                ask(failing)
            copy = pickle.loads(pickle.dumps(caught.value))
            assert type(copy) is type(caught.value)
            assert str(copy) == str(caught.value)
