"""The litellm chat model against a real HTTP server on this machine."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from perdure.jobs.chat_model import ChatMessage, ChatReply, ChatRequest, ToolSpec
from perdure.jobs.litellm_chat import LitellmChat
from perdure.jobs.request_thread import LONGEST_RETRY_AFTER_S
from perdure.storage.errors import ModelError, ModelRequestError, ModelUnavailableError
from perdure.storage.records import CallId, ToolCall, Usage
from perdure.storage.settings import ModelSettings
from perdure.storage.tokens import estimate_tokens
from tests.conformance.chat_model import streamed
from tests.integration.openai_server import Answer, Drip, Failure, Hang, OpenAIServer, Raw

KEY = "pk-perdure-0123456789abcdef"  # no form that anybody would recognise as a key's
MODEL = "openai/gpt-4o-mini"


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with OpenAIServer() as server:
        yield server


class Asking:
    """A model and what it slept; the jitter is the whole of it unless a test says otherwise."""

    def __init__(self, api_base: str | None, *, max_retries: int = 3, jitter: float = 1.0) -> None:
        self.slept: list[float] = []
        self.model = LitellmChat(
            ModelSettings(api_base=api_base, max_retries=max_retries), sleep=self.slept.append, random=lambda: jitter
        )

    def complete(self, request: ChatRequest | None = None) -> ChatReply:
        return self.model.complete(request or asked())

    def stream(self, request: ChatRequest | None = None) -> tuple[list[str], ChatReply]:
        return streamed(self.model, request or asked())

    def both(self, request: ChatRequest | None = None) -> Sequence[ChatReply]:
        _, reply = self.stream(request)
        return self.complete(request), reply

    def failing(self, request: ChatRequest | None = None) -> ModelError:
        with pytest.raises(ModelError) as caught:
            self.complete(request)
        return caught.value


def asked(
    *messages: ChatMessage, model: str = MODEL, timeout_s: float = 30.0, tools: tuple[ToolSpec, ...] = ()
) -> ChatRequest:
    messages = messages or (ChatMessage(role="user", content="Hello"),)
    return ChatRequest(model=model, messages=messages, timeout_s=timeout_s, tools=tools)


# --- what is sent and what comes back ----------------------------------------------------------------------


def test_messages_and_tools_are_sent_in_openais_form(server):
    call = ToolCall(call_id=CallId("c1"), name="look", arguments='{"at": "sky"}')
    schema = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
    request = asked(
        ChatMessage(role="system", content="Be kind."),
        ChatMessage(role="user", content="Look!", speaker="Ana-1", seq=0),
        ChatMessage(role="user", content="Please", speaker="Ana María", seq=1),
        ChatMessage(role="assistant", content="", tool_calls=(call,), seq=2),
        ChatMessage(role="tool", content="blue", call_id=CallId("c1"), seq=3),
        ChatMessage(role="assistant", content="It is blue.", speaker="Robo", seq=4),
        tools=(ToolSpec(name="look", description="Look at it.", parameters=schema),),
    )
    Asking(server.api_base).both(request)
    whole, streamed = server.requests
    assert whole.path == "/v1/chat/completions"
    for sent in (whole.body, streamed.body):
        assert sent["model"] == "gpt-4o-mini"
        assert sent["messages"] == [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Look!", "name": "Ana-1"},
            {"role": "user", "content": "Please"},
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "blue"},
            {"role": "assistant", "content": "It is blue."},
        ]
        assert sent["tools"] == [
            {"type": "function", "function": {"name": "look", "description": "Look at it.", "parameters": schema}}
        ]
    assert [sent.body.get("stream_options") for sent in server.requests] == [{"include_usage": True}, None]


def test_a_request_without_tools_names_none(server):
    Asking(server.api_base).complete()
    assert "tools" not in server.requests[0].body


def test_text_calls_and_usage_come_back(server):
    server.otherwise = Answer("Let me see.", [("c1", "look", '{"at": 1}'), ("c2", "book", "{}")], usage=(120, 9))
    for reply in Asking(server.api_base).both():
        assert reply.text == "Let me see."
        assert [(call.call_id, call.name, call.arguments) for call in reply.tool_calls] == [
            ("c1", "look", '{"at": 1}'),
            ("c2", "book", "{}"),
        ]
        assert reply.usage == Usage(prompt_tokens=120, completion_tokens=9, model_calls=1)


def test_a_stream_gives_the_pieces_as_they_come(server):
    server.otherwise = Answer(pieces=["Once ", "upon", " a time"])
    pieces, reply = Asking(server.api_base).stream()
    assert pieces == ["Once ", "upon", " a time"]
    assert reply.text == "Once upon a time"


def test_usage_that_the_provider_leaves_out_is_estimated_and_says_so(server):
    server.otherwise = Answer("Hello from afar.", usage=None)
    for reply in Asking(server.api_base).both(asked(ChatMessage(role="user", content="What is there? " * 50))):
        assert reply.usage == Usage(
            prompt_tokens=estimate_tokens("What is there? " * 50),
            completion_tokens=estimate_tokens("Hello from afar."),
            model_calls=1,
            is_estimated=True,
        )


def test_a_text_of_none_is_the_empty_text(server):
    server.otherwise = Answer(None, [("c", "look", "{}")])
    assert [reply.text for reply in Asking(server.api_base).both()] == ["", ""]


def test_missing_and_repeated_call_ids_get_fresh_ones(server):
    history = asked(
        ChatMessage(role="user", content="Look"),
        ChatMessage(
            role="assistant", content="", tool_calls=(ToolCall(call_id=CallId("c0"), name="look", arguments="{}"),)
        ),
        ChatMessage(role="tool", content="blue", call_id=CallId("c0")),
    )
    server.otherwise = Answer(None, [("c1", "a", "{}"), ("c1", "b", "{}"), ("", "c", "{}"), ("c0", "d", "{}")])
    for reply in Asking(server.api_base).both(history):
        ids = [call.call_id for call in reply.tool_calls]
        assert [call.name for call in reply.tool_calls] == ["a", "b", "c", "d"]
        assert ids[0] == "c1"
        assert len(set(ids)) == 4
        assert {"", "c0"}.isdisjoint(ids)


def test_calls_that_the_length_limit_cut_are_passed_on_as_they_are(server):
    server.otherwise = Answer(None, [("c", "book", '{"table": ')], finish_reason="length")
    assert [reply.tool_calls[0].arguments for reply in Asking(server.api_base).both()] == ['{"table": ', '{"table": ']


def test_a_history_with_malformed_arguments_does_not_block_the_conversation(server):
    cut = ToolCall(call_id=CallId("c"), name="book", arguments='{"table": ')
    Asking(server.api_base).complete(
        asked(
            ChatMessage(role="user", content="Book"),
            ChatMessage(role="assistant", content="", tool_calls=(cut,)),
            ChatMessage(role="tool", content="the arguments are no JSON", call_id=CallId("c")),
        )
    )
    sent = server.requests[0].body["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert sent == '{"malformed_arguments": "{\\"table\\": "}'


def test_half_an_emoji_becomes_a_replacement_character_and_two_halves_an_emoji(server):
    server.otherwise = Answer("a \ud83d\ude00 b\ud83d c\x00", pieces=["a \ud83d", "\ude00 b\ud83d", " c\x00"])
    assert [reply.text for reply in Asking(server.api_base).both()] == ["a 😀 b\ufffd c\ufffd"] * 2


@pytest.mark.parametrize("reason", ["stop", "length", "content_filter"])
def test_an_answer_with_nothing_in_it_is_no_reply(server, reason):
    server.otherwise = Answer("", finish_reason=reason)
    asking = Asking(server.api_base)
    for ask in (asking.complete, asking.stream):
        with pytest.raises(ModelUnavailableError, match=f"empty answer .*{reason}"):
            ask()
    assert asking.slept == []


def test_requests_of_many_threads_do_not_mix(server):
    asking = Asking(server.api_base)
    server.otherwise = Answer("one two three four")
    with ThreadPoolExecutor(12) as pool:
        texts = {reply.text for replies in pool.map(lambda _: asking.both(), range(18)) for reply in replies}
    assert texts == {"one two three four"}
    assert len(server.requests) == 36


# --- servers of one's own ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", ["llama-at-home", "meta/llama-at-home", "qwen/x/y", "openai/llama-at-home", "hosted_vllm/llama"]
)
def test_a_server_of_ones_own_needs_no_key_and_may_have_any_model(server, monkeypatch, model):
    monkeypatch.delenv("OPENAI_API_KEY")
    Asking(server.api_base).complete(asked(model=model))
    assert server.requests[0].body["model"] == model.removeprefix("openai/").removeprefix("hosted_vllm/")
    assert KEY not in str(server.requests[0].headers)


def test_a_server_of_ones_own_that_wants_a_key_gets_it_from_openais_variable(server, monkeypatch):
    Asking(server.api_base).complete(asked(model="llama"))
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    monkeypatch.delenv("OPENAI_API_KEY")
    server.otherwise = Failure(401, "who are you")
    assert "no key; set OPENAI_API_KEY" in str(Asking(server.api_base).failing(asked(model="llama")))


def test_a_server_that_knows_no_stream_options_still_streams(server):
    server.will(Failure(400, "unknown field: stream_options"), Answer("Hello", usage=None))
    asking = Asking(server.api_base)
    assert asking.stream()[1].text == "Hello"
    assert [request.body.get("stream_options") for request in server.requests] == [{"include_usage": True}, None]
    assert asking.slept == []


# --- failures that may pass --------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
@pytest.mark.parametrize("way", ["complete", "stream"])
def test_a_failure_that_may_pass_is_tried_again(server, status, way):
    server.will(Failure(status), Failure(status), Answer("At last."))
    asking = Asking(server.api_base)
    reply = asking.complete() if way == "complete" else asking.stream()[1]
    assert reply.text == "At last."
    assert asking.slept == [0.5, 1.0]
    assert len(server.requests) == 3


def test_pauses_double_up_to_a_limit_and_are_drawn_by_chance(server):
    server.otherwise = Failure(503)
    for jitter in (1.0, 0.25, 0.0):
        asking = Asking(server.api_base, max_retries=6, jitter=jitter)
        assert isinstance(asking.failing(), ModelUnavailableError)
        assert asking.slept == [jitter * longest for longest in (0.5, 1.0, 2.0, 4.0, 8.0, 8.0)]


@pytest.mark.parametrize("max_retries", [0, 2])
def test_there_are_as_many_attempts_as_the_settings_say_and_no_more(server, max_retries):
    server.otherwise = Failure(500, "out of order")
    asking = Asking(server.api_base, max_retries=max_retries)
    error = asking.failing()
    assert isinstance(error, ModelUnavailableError)
    assert "out of order" in str(error)
    assert len(server.requests) == max_retries + 1


def test_the_pause_that_a_provider_asks_for_is_kept(server):
    server.will(Failure(429, headers={"Retry-After": "7"}), Answer("Now."))
    asking = Asking(server.api_base)
    assert asking.complete().text == "Now."
    assert asking.slept == [7.5]


def test_a_pause_until_a_date_is_read_by_the_servers_clock(server):
    date = {"Date": "Wed, 21 Oct 2015 07:28:00 GMT", "Retry-After": "Wed, 21 Oct 2015 07:28:20 GMT"}
    server.will(Failure(503, headers=date), Answer("Now."))
    asking = Asking(server.api_base)
    assert asking.complete().text == "Now."
    assert asking.slept == [20.5]


@pytest.mark.parametrize("given", ["soon", "", "-5", "nan"])
def test_a_pause_that_makes_no_sense_is_none(server, given):
    server.will(Failure(429, headers={"Retry-After": given}), Answer("Now."))
    asking = Asking(server.api_base)
    assert asking.complete().text == "Now."
    assert asking.slept == [0.5]


def test_a_provider_that_asks_for_a_long_pause_is_not_waited_for(server):
    server.otherwise = Failure(429, "come back later", headers={"Retry-After": str(int(LONGEST_RETRY_AFTER_S) + 1)})
    asking = Asking(server.api_base)
    error = asking.failing()
    assert isinstance(error, ModelUnavailableError)
    assert "come back later" in str(error)
    assert "wait 61 s" in str(error)
    assert asking.slept == []


def test_an_unreachable_server_is_tried_again_and_unavailable(server):
    asking = Asking("http://127.0.0.1:9/v1", max_retries=2)
    assert isinstance(asking.failing(), ModelUnavailableError)
    assert len(asking.slept) == 2


@pytest.mark.parametrize(
    "action", [Hang(), Drip(), Answer("one two three", stalls_after=2)], ids=["silent", "slow", "stalled"]
)
def test_an_answer_that_is_not_whole_in_time_is_given_up(server, action):
    Asking(server.api_base).both()  # the first request of a process loads modules
    server.otherwise = action
    began = time.monotonic()
    asking = Asking(server.api_base, max_retries=0)
    ask = asking.stream if isinstance(action, Answer) else asking.complete
    with pytest.raises(ModelUnavailableError, match=r"no complete answer within 1\.5 s"):
        ask(asked(timeout_s=1.5))
    assert 1.4 < time.monotonic() - began < 10


def test_a_timeout_is_tried_again(server):
    Asking(server.api_base).complete()
    server.will(Hang(), Answer("Awake."))
    asking = Asking(server.api_base)
    assert asking.complete(asked(timeout_s=1.5)).text == "Awake."
    assert asking.slept == [0.5]


def test_a_stream_that_breaks_before_its_first_piece_is_tried_again(server):
    server.will(Answer("one two three", ends_after=1), Answer("four five"))
    asking = Asking(server.api_base)
    assert asking.stream()[0] == ["four", " five"]
    assert len(asking.slept) == 1


def test_a_stream_that_breaks_after_a_piece_is_raised_and_not_tried_again(server):
    server.otherwise = Answer("one two three", ends_after=2)
    asking = Asking(server.api_base)
    stream = asking.model.stream(asked())
    assert next(stream) == "one"
    with pytest.raises(ModelUnavailableError):
        next(stream)
    assert len(server.requests) == 1
    assert asking.slept == []


@pytest.mark.parametrize("body", [b"<html>no</html>", b'{"choices": []}', b'{"id": ', b"", b"[]", b"null"])
def test_a_response_that_makes_no_sense_is_unavailable(server, body):
    server.otherwise = Raw(body)
    asking = Asking(server.api_base, max_retries=0)
    for ask in (asking.complete, asking.stream):
        with pytest.raises(ModelUnavailableError):
            ask()


# --- failures that will not pass ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (Failure(400, "bad field"), "refused, HTTP 400: bad field"),
        (Failure(401, "who are you"), "key was refused, HTTP 401 (who are you); set a valid one in the environment"),
        (Failure(402, "pay first"), "no credit left (pay first)"),
        (Failure(403, "not for you"), "key was refused, HTTP 403"),
        (Failure(404, "no such model"), "not found (no such model); check the model's name"),
        (Failure(413, "too big"), "longer than the model takes"),
        (Failure(422, "odd"), "refused, HTTP 422"),
        (Failure(429, "You exceeded your current quota", code="insufficient_quota"), "no credit left"),
        (
            Failure(400, "This model's maximum context length is 100 tokens", code="context_length_exceeded"),
            "lower PERDURE_CONTEXT__BUDGET_TOKENS",
        ),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Failure) else "",
)
def test_a_request_that_will_never_be_taken_is_not_repeated_and_says_what_to_do(server, failure, said):
    server.otherwise = failure
    asking = Asking(server.api_base)
    for ask in (asking.complete, asking.stream):
        with pytest.raises(ModelRequestError) as caught:
            ask()
        assert said in str(caught.value)
        assert caught.value.model == MODEL
    assert asking.slept == []


def test_an_unknown_model_says_how_to_name_one(server):
    error = Asking(None).failing(asked(model="gpt-nonsense"))
    assert isinstance(error, ModelRequestError)
    assert "such as openai/gpt-4o-mini" in str(error)
    assert server.requests == []


@pytest.mark.parametrize("model", [None, ""])
def test_a_request_that_names_no_model_is_refused(server, model):
    assert isinstance(
        Asking(server.api_base).failing(ChatRequest(model=model, messages=asked().messages)), ModelRequestError
    )


@pytest.mark.parametrize(
    ("model", "variable"), [(MODEL, "OPENAI_API_KEY"), ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY")]
)
def test_a_missing_key_is_named_by_its_variable(server, monkeypatch, model, variable):
    for name in (variable, "OPENAI_ADMIN_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    asking = Asking(None)
    error = asking.failing(asked(model=model))
    assert isinstance(error, ModelRequestError)
    assert f"no key; set {variable}" in str(error)
    assert asking.slept == []


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
def test_the_key_shows_in_no_error(server, status):
    server.otherwise = Failure(status, f"Incorrect API key provided: {KEY}. Header was 'Bearer {KEY}'")
    asking = Asking(server.api_base, max_retries=1)
    for ask in (asking.complete, asking.stream):
        with pytest.raises(ModelError) as caught:
            ask()
        shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + str(caught.value.during("t"))
        assert "Incorrect API key provided: [key]" in shown
        assert KEY not in shown
        assert KEY.encode() not in pickle.dumps(caught.value)
    assert KEY in server.requests[0].headers["authorization"]  # guards the test itself: it was sent


def test_the_cause_of_a_failure_is_chained_where_it_shows_no_key(server):
    server.otherwise = Failure(400, "bad field")
    assert "bad field" in str(Asking(server.api_base).failing().__cause__)


# --- litellm's manners -------------------------------------------------------------------------------------


def test_nothing_is_printed(server, capfd):
    server.will(Failure(400), Failure(401), Answer("Hello"), Raw(b"{"))
    asking = Asking(server.api_base, max_retries=0)
    for _ in range(4):
        with contextlib.suppress(ModelError):
            asking.complete()
    with pytest.raises(ModelRequestError):
        Asking(None).complete(asked(model="gpt-nonsense"))
    time.sleep(0.2)  # litellm logs on other threads
    assert capfd.readouterr() == ("", "")


def test_loading_reaches_for_no_network_and_reads_no_env_file(tmp_path):
    (tmp_path / ".env").write_text("PERDURE_TEST_ENV_FILE=1\n")
    program = (
        "import os, socket, sys\n"
        "def refuse(*given): print('reached for', given); sys.exit(3)\n"
        "socket.getaddrinfo = socket.socket.connect = socket.socket.connect_ex = refuse\n"
        "import perdure.jobs.litellm_chat\n"
        "print('loaded', 'PERDURE_TEST_ENV_FILE' in os.environ)\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LITELLM")}
    environment["PYTHONPATH"] = os.pathsep.join(itertools.chain(filter(None, sys.path)))
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.stdout == "loaded False\n", ended.stdout + ended.stderr
