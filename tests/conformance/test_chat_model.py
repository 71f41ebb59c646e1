"""The models of Perdure, each held against what a `ChatModel` keeps to."""

from __future__ import annotations

import pytest

from perdure.jobs.chat_model import ChatModel, ChatReply, ChatRequest, ToolSpec
from perdure.jobs.chat_models import ChatModels
from perdure.jobs.embedded_chat import EmbeddedChat
from perdure.jobs.openai_form import estimated_usage
from perdure.jobs.scripted_chat import CallTools, FailWith, Rule, Say, Script, ScriptedChat, script_to_name
from perdure.storage.settings import ModelSettings
from tests.conformance.chat_model import ChatModelConformance, said
from tests.integration.openai_server import Answer, Failure, OpenAIServer

LOOK = ToolSpec(name="look", description="Look something up.", parameters={"type": "object", "properties": {}})
SCRIPT = Script(
    (
        Rule("fail", (FailWith("it is meant to"),)),
        Rule("look", (CallTools((("look", {"at": 1}), ("look", {"at": 2}))), Say("I looked."))),
        Rule(None, (Say("I do what I was told to do."),)),
    )
)


def asking(model: str | None, text: str) -> ChatRequest:
    return ChatRequest(
        model=model, messages=(said("My name is Ana", 100), said(text, 101)), tools=(LOOK,), timeout_s=30
    )


class TestEmbeddedChat(ChatModelConformance):
    @pytest.fixture
    def model(self) -> ChatModel:
        return EmbeddedChat()

    @pytest.fixture
    def another(self) -> ChatModel:
        return EmbeddedChat()

    @pytest.fixture
    def speaking(self) -> ChatRequest:
        return asking(None, "What is my name?")

    @pytest.fixture
    def calling(self) -> None:
        return None

    @pytest.fixture
    def failing(self) -> None:
        return None


class TestScriptedChat(ChatModelConformance):
    @pytest.fixture
    def model(self) -> ChatModel:
        return ScriptedChat()

    @pytest.fixture
    def another(self) -> ChatModel:
        return ScriptedChat()

    @pytest.fixture
    def speaking(self) -> ChatRequest:
        return asking(script_to_name(SCRIPT), "Say something")

    @pytest.fixture
    def calling(self) -> ChatRequest:
        return asking(script_to_name(SCRIPT), "Look twice")

    @pytest.fixture
    def failing(self) -> ChatRequest:
        return asking(script_to_name(SCRIPT), "Fail")


class TestScriptedChatChosenByName(TestScriptedChat):
    @pytest.fixture
    def model(self) -> ChatModel:
        return ChatModels(ModelSettings())


class TestLitellmChat(ChatModelConformance):
    @pytest.fixture
    def server(self, monkeypatch):
        monkeypatch.setenv("OPENAI_API_KEY", "sk-conformance-0123456789")
        with OpenAIServer(Answer("Hello from the server.")) as server:
            yield server

    def made(self, server: OpenAIServer) -> ChatModel:
        from perdure.jobs.litellm_chat import LitellmChat

        return LitellmChat(ModelSettings(api_base=server.api_base, max_retries=0))

    @pytest.fixture
    def model(self, server) -> ChatModel:
        return self.made(server)

    @pytest.fixture
    def another(self, server) -> ChatModel:
        return self.made(server)

    @pytest.fixture
    def speaking(self) -> ChatRequest:
        return asking("openai/gpt-4o-mini", "Hello")

    @pytest.fixture
    def calling(self, server) -> ChatRequest:
        server.otherwise = Answer(None, [("c", "look", '{"at":1}'), ("c", "look", '{"at":2}'), (None, "look", "{}")])
        return asking("openai/gpt-4o-mini", "Look")

    @pytest.fixture
    def failing(self, server) -> ChatRequest:
        server.otherwise = Failure(400, "it will not do")
        return asking("openai/gpt-4o-mini", "Fail")


class OwnChat:
    """A user's own model: what `python/…` names."""

    def complete(self, request: ChatRequest) -> ChatReply:
        if "Fail" in request.messages[-1].content:
            raise KeyError("a bug")
        text = "Made at home."
        return ChatReply(text=text, usage=estimated_usage(request, text))

    def stream(self, request: ChatRequest):
        reply = self.complete(request)
        yield from ("Made ", "at ", "home.")
        yield reply


class TestOwnChat(ChatModelConformance):
    @pytest.fixture
    def model(self) -> ChatModel:
        return ChatModels(ModelSettings())

    @pytest.fixture
    def another(self) -> ChatModel:
        return ChatModels(ModelSettings())

    @pytest.fixture
    def speaking(self) -> ChatRequest:
        return asking(f"python/{__name__}:OwnChat", "Hello")

    @pytest.fixture
    def calling(self) -> None:
        return None

    @pytest.fixture
    def failing(self) -> ChatRequest:
        return asking(f"python/{__name__}:OwnChat", "Fail")
