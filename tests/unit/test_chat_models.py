"""Which model answers, by its name, and what becomes of a user's own model that misbehaves."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from perdure.jobs.chat_model import ChatMessage, ChatReply, ChatRequest
from perdure.jobs.chat_models import ChatModels
from perdure.jobs.scripted_chat import Rule, Say, Script, script_to_name
from perdure.storage.errors import InvalidInputError, ModelRequestError, ModelUnavailableError
from perdure.storage.records import CallId, ToolCall, Usage
from perdure.storage.settings import ModelSettings

ONCE = Usage(model_calls=1)


class Own:
    """A model of a user; `does` is carried out for each request."""

    made = 0

    def __init__(self, does=lambda: "ok") -> None:
        type(self).made += 1
        self.does = does

    def complete(self, request: ChatRequest) -> ChatReply:
        answer = self.does()
        return ChatReply(text=answer, usage=ONCE) if isinstance(answer, str) else answer

    def stream(self, request: ChatRequest):
        reply = self.complete(request)
        yield from reply.text.split(" ")
        yield reply


class Namespace:
    nested = Own(lambda: "nested")


def raises(error: BaseException) -> Own:
    def fail() -> str:
        raise error

    return Own(fail)


def call(call_id: str) -> ToolCall:
    return ToolCall(call_id=CallId(call_id), name="a", arguments="{}")


instance = Own()
buggy = raises(ZeroDivisionError("division by zero"))
secretive = raises(RuntimeError("cannot log in with own-secret-0123456789"))
leaving = raises(InvalidInputError("text", "too odd", "write another"))
overloaded = raises(ModelUnavailableError("mine", "overloaded"))
wordless = Own(lambda: None)
repeating = Own(lambda: ChatReply(text="", tool_calls=(call("c"), call("c")), usage=ONCE))
nameless = Own(lambda: ChatReply(text="", tool_calls=(call(""),), usage=ONCE))
untrue = Own(lambda: "one two")  # its pieces lack the blank
number = 3
half_a_model = type("Half", (), {"complete": lambda *_: None})


class Endless(Own):
    def stream(self, request: ChatRequest):
        yield "and so on"


class Stumbling(Own):
    def stream(self, request: ChatRequest):
        yield "one"
        raise ZeroDivisionError("division by zero")


def made_slowly() -> Own:
    time.sleep(0.1)
    return Own()


def needs_an_argument(model: str) -> Own:
    raise AssertionError(model)


def leaves() -> Own:
    sys.exit("no key")


def asked(model: str | None, text: str = "What is my name?") -> ChatRequest:
    messages = (
        ChatMessage(role="user", content="My name is Ana", seq=0),
        ChatMessage(role="user", content=text, seq=1),
    )
    return ChatRequest(model=model, messages=messages)


def own(name: str) -> str:
    return f"python/{__name__}:{name}"


@pytest.fixture
def models() -> ChatModels:
    return ChatModels(ModelSettings())


@pytest.mark.parametrize("name", [None, "embedded"])
def test_without_a_name_the_embedded_model_answers(models, name):
    assert "My name is Ana" in models.complete(asked(name)).text
    assert "My name is Ana" in list(models.stream(asked(name)))[-1].text


def test_a_script_is_followed(models):
    name = script_to_name(Script((Rule(None, (Say("As written."),)),)))
    assert models.complete(asked(name)).text == "As written."
    assert list(models.stream(asked(name)))[-1].text == "As written."


def test_a_malformed_script_is_a_request_error(models):
    with pytest.raises(ModelRequestError, match="holds no script"):
        models.complete(asked("scripted/nonsense"))


@pytest.mark.parametrize("name", ["instance", "Own", "made_slowly", "Namespace.nested"])
def test_a_users_own_model_is_an_object_a_class_or_a_function_that_makes_one(models, name):
    reply = models.complete(asked(own(name)))
    assert reply.text in ("ok", "nested")
    assert list(models.stream(asked(own(name)))) == [reply.text, reply]


def test_a_users_own_model_is_made_once_even_for_many_threads(models):
    before = Own.made
    threads = [threading.Thread(target=models.complete, args=(asked(own("made_slowly")),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    models.complete(asked(own("made_slowly")))
    assert Own.made == before + 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("python/", "names no model"),
        ("python/json", "names no model"),
        ("python/:dumps", "names no model"),
        ("python/no.such.module:model", "ModuleNotFoundError: No module named 'no'"),
        ("python/json:nothing", "AttributeError: module 'json' has no attribute 'nothing'"),
        ("python/.json:dumps", "TypeError"),
        (own("number"), "TypeError: 'int' object is not callable"),
        (own("half_a_model"), "a Half is no ChatModel"),
        (own("needs_an_argument"), "TypeError"),
        (own("leaves"), "SystemExit: no key"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_named_with_the_reason(models, name, said):
    for _ in range(2):
        with pytest.raises(ModelRequestError) as caught:
            models.complete(asked(name))
        assert said in str(caught.value)
        assert name in str(caught.value)
    with pytest.raises(ModelRequestError):
        list(models.stream(asked(name)))


@pytest.mark.parametrize(("name", "kind"), [("buggy", ZeroDivisionError), ("leaving", InvalidInputError)])
def test_what_a_users_model_raises_becomes_a_model_error_that_names_its_type(models, name, kind):
    for ask in (models.complete, lambda request: list(models.stream(request))):
        with pytest.raises(ModelUnavailableError, match=kind.__name__) as caught:
            ask(asked(own(name)))
        assert isinstance(caught.value.__cause__, kind)
        assert caught.value.model == own(name)


def test_a_model_error_of_a_users_model_stays_as_it_is(models):
    with pytest.raises(ModelUnavailableError, match="model 'mine': overloaded"):
        models.complete(asked(own("overloaded")))


def test_a_key_in_a_users_error_is_blotted_out(models, monkeypatch):
    monkeypatch.setenv("MY_SERVICE_TOKEN", "own-secret-0123456789")
    with pytest.raises(ModelUnavailableError) as caught:
        models.complete(asked(own("secretive")))
    assert "cannot log in with [key]" in str(caught.value)
    assert caught.value.__cause__ is None


def test_pieces_before_a_stumble_arrive_and_then_the_error(models):
    stream = models.stream(asked(own("Stumbling")))
    assert next(stream) == "one"
    with pytest.raises(ModelUnavailableError, match="ZeroDivisionError"):
        next(stream)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("wordless", "a NoneType, not a ChatReply"),
        ("repeating", "not unique"),
        ("nameless", "not unique"),
    ],
)
def test_a_reply_that_breaks_the_rules_is_refused(models, name, said):
    with pytest.raises(ModelRequestError, match=said):
        models.complete(asked(own(name)))


@pytest.mark.parametrize(("name", "said"), [("untrue", "pieces joined"), ("Endless", "without a ChatReply")])
def test_a_stream_that_breaks_the_rules_is_refused(models, name, said):
    with pytest.raises(ModelRequestError, match=said):
        list(models.stream(asked(own(name))))


def test_other_models_answer_while_one_is_being_loaded(models):
    loading = threading.Thread(target=models.complete, args=(asked(own("made_slowly")),))
    loading.start()
    began = time.monotonic()
    assert models.complete(asked(None)).text
    assert models._loading.locked()  # guards the test itself
    assert time.monotonic() - began < 0.1
    loading.join()


def test_litellm_is_loaded_only_when_it_is_asked_for():
    program = (
        "import sys\n"
        "from perdure.jobs.chat_models import ChatModels\n"
        "from perdure.jobs.chat_model import ChatMessage, ChatRequest\n"
        "from perdure.storage.settings import ModelSettings\n"
        "models = ChatModels(ModelSettings())\n"
        "models.complete(ChatRequest(model=None, messages=(ChatMessage(role='user', content='Hello'),)))\n"
        "print(sorted({'litellm', 'openai', 'ray', 'duckdb'} & set(sys.modules)))\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.stdout == "[]\n", ended.stderr
