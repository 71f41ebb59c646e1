"""A chat and embedding server of OpenAI's wire form on the loopback interface, answering and failing as told.

with OpenAIServer() as server:
    server.will(Failure(429, headers={"Retry-After": "1"}), Answer("Hello."))
    ...  # ask http://127.0.0.1:<port>/v1
    assert len(server.requests) == 2
"""

from __future__ import annotations

import json
import random
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

EMBEDDING_LENGTH = 48


@dataclass(frozen=True)
class Answer:
    """A reply, whole or streamed, as the request asks."""

    text: str | None = None
    tool_calls: Sequence[tuple[str | None, str, str]] = ()
    """(id, name, arguments)."""
    usage: tuple[int, int] | None = (11, 7)
    """Prompt and completion tokens; None leaves the usage out."""
    finish_reason: str | None = None
    pieces: Sequence[str] | None = None
    """The text as it is streamed; None: word by word."""
    ends_after: int | None = None
    """A streamed answer's connection drops after this many events."""
    stalls_after: int | None = None
    """A streamed answer sends nothing but comments after this many events."""


@dataclass(frozen=True)
class Embeddings:
    """The vectors that answer a request for embeddings; None: made from the texts, in the asked-for length."""

    vectors: Sequence[Sequence[float]] | None = None
    is_reversed: bool = False
    """The entries arrive last first."""


@dataclass(frozen=True)
class Failure:
    """An error of OpenAI's form."""

    status: int
    message: str = "it went wrong"
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Raw:
    """A response of status 200 with any body."""

    body: bytes
    content_type: str = "application/json"


@dataclass(frozen=True)
class Hang:
    """No response until the server is closed."""


@dataclass(frozen=True)
class Drip:
    """A response whose body arrives as one blank every `every_s`, until the server is closed."""

    every_s: float = 0.05


Action = Answer | Embeddings | Failure | Raw | Hang | Drip


@dataclass(frozen=True)
class Recorded:
    """A request as it came in."""

    path: str
    headers: Mapping[str, str]
    """By name in small letters."""
    body: dict[str, Any]


class OpenAIServer:
    """Serves `POST /v1/chat/completions` and `/v1/embeddings`, carrying out the given actions in order.

    Then it repeats `otherwise`, and answers every request for embeddings with vectors made from the texts.
    """

    def __init__(self, otherwise: Action | None = None) -> None:
        self.requests: list[Recorded] = []
        self.otherwise: Action = otherwise or Answer("Hello from the test server.")
        self.closing = threading.Event()
        self._actions: deque[Action] = deque()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def api_base(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def will(self, *actions: Action) -> None:
        """Carry these out, in order, for the next requests."""
        with self._lock:
            self._actions.extend(actions)

    def take(self, request: Recorded) -> Action:
        with self._lock:
            self.requests.append(request)
            if self._actions:
                return self._actions.popleft()
            return Embeddings() if request.path.endswith("/embeddings") else self.otherwise

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _message(answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.tool_calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in answer.tool_calls
        ]
    return message


def _finish_reason(answer: Answer) -> str:
    return answer.finish_reason or ("tool_calls" if answer.tool_calls else "stop")


def _usage(answer: Answer) -> dict[str, int] | None:
    if answer.usage is None:
        return None
    prompt, completion = answer.usage
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def completion(answer: Answer, model: str) -> dict[str, Any]:
    """The body of an answer that is not streamed."""
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [{"index": 0, "message": _message(answer), "finish_reason": _finish_reason(answer)}],
    }
    if (usage := _usage(answer)) is not None:
        body["usage"] = usage
    return body


def chunks(answer: Answer, model: str, include_usage: bool) -> Iterator[dict[str, Any]]:
    """The events of a streamed answer; the arguments of each call arrive in two halves."""

    def chunk(delta: dict[str, Any] | None, finish_reason: str | None = None) -> dict[str, Any]:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": model,
            "choices": choices,
        }

    yield chunk({"role": "assistant", "content": ""})
    pieces = answer.pieces
    if pieces is None:
        words = (answer.text or "").split(" ")
        pieces = [word if place == 0 else f" {word}" for place, word in enumerate(words)]
    for piece in pieces:
        if piece:
            yield chunk({"content": piece})
    for index, (call_id, name, arguments) in enumerate(answer.tool_calls):
        half = len(arguments) // 2
        head = {"name": name, "arguments": arguments[:half]}
        yield chunk({"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": head}]})
        yield chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments[half:]}}]})
    yield chunk({}, _finish_reason(answer))
    if include_usage and (usage := _usage(answer)) is not None:
        yield {**chunk(None), "usage": usage}


def embeddings(answer: Embeddings, body: dict[str, Any]) -> dict[str, Any]:
    """The body of an answer with vectors."""
    vectors = answer.vectors
    if vectors is None:
        vectors = [_vector_of(text, body.get("dimensions") or EMBEDDING_LENGTH) for text in body["input"]]
    data = [{"object": "embedding", "index": place, "embedding": vector} for place, vector in enumerate(vectors)]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    entries = data[::-1] if answer.is_reversed else data
    return {"object": "list", "data": entries, "model": body["model"], "usage": usage}


def _vector_of(text: str, length: int) -> list[float]:
    drawn = random.Random(text)
    return [drawn.gauss(0, 3) for _ in range(length)]


def _handler_of(server: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            action = server.take(
                Recorded(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            )
            try:
                self.carry_out(action, body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def carry_out(self, action: Action, body: dict[str, Any]) -> None:
            model = str(body.get("model"))
            match action:
                case Hang():
                    server.closing.wait()
                    self.close_connection = True
                case Drip(every_s):
                    self.start(200, "application/json", {"Content-Length": "1000000"})
                    while not server.closing.wait(every_s):
                        self.send(b" ")
                    self.close_connection = True
                case Failure(status, message, code, headers):
                    error = {"error": {"message": message, "type": "error", "param": None, "code": code}}
                    self.whole(status, json.dumps(error).encode(), "application/json", headers)
                case Raw(raw, content_type):
                    self.whole(200, raw, content_type, {})
                case Embeddings():
                    self.whole(200, json.dumps(embeddings(action, body)).encode(), "application/json", {})
                case Answer() if body.get("stream"):
                    include_usage = bool((body.get("stream_options") or {}).get("include_usage"))
                    self.events(action, model, include_usage)
                case Answer():
                    self.whole(200, json.dumps(completion(action, model)).encode(), "application/json", {})

        def events(self, answer: Answer, model: str, include_usage: bool) -> None:
            self.close_connection = True
            self.start(200, "text/event-stream", {"Connection": "close"})
            for place, event in enumerate(chunks(answer, model, include_usage)):
                if place == answer.ends_after:
                    return
                if place == answer.stalls_after:
                    while not server.closing.wait(0.05):
                        self.send(b": still here\n\n")
                    return
                self.send(b"data: " + json.dumps(event).encode() + b"\n\n")
            self.send(b"data: [DONE]\n\n")

        def whole(self, status: int, body: bytes, content_type: str, headers: Mapping[str, str]) -> None:
            self.start(status, content_type, {"Content-Length": str(len(body)), **headers})
            self.send(body)

        def start(self, status: int, content_type: str, headers: Mapping[str, str]) -> None:
            self.send_response_only(status)
            if "Date" not in headers:
                self.send_header("Date", self.date_time_string())
            self.send_header("Content-Type", content_type)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def send(self, data: bytes) -> None:
            self.wfile.write(data)
            self.wfile.flush()

    return Handler
