"""`perdure context`: what the model would see of a conversation now, part by part."""

from __future__ import annotations

from pathlib import Path

from ...jobs.chat_model import ChatMessage
from ...jobs.context import Context
from ...jobs.working_tools import WORKING_TOOLS
from .known import connect_to_existing, handle_of, known_conversation
from .output import Output, one_line

STAND_IN = "…"
"""The input, where none is given."""


def show_context(
    data_dir: Path | None, conversation_id: str, agent: str | None, text: str | None, output: Output
) -> None:
    """Print the context as it would be if the text were sent now; nothing is sent and no model runs."""
    with connect_to_existing(data_dir) as runtime:
        record = known_conversation(runtime, conversation_id, agent)
        chat = handle_of(runtime, record)
        context = chat.context(STAND_IN if text is None else text)
        budget = runtime.place.settings.context.budget_tokens
        tools = [*(tool.name for tool in chat.agent.options.tools), *WORKING_TOOLS]
    if output.as_json:
        output.json(_as_json(context, budget, tools) | {"model": chat.agent.options.model})
        return
    model = one_line(chat.agent.options.model or "embedded", 60)
    output.line(f"{context.tokens:,} of {budget:,} tokens, by estimate, for the model {model}", style="bold")
    for part in context.parts:
        output.line()
        if not part.messages:
            output.line(f"{part.name}: empty", style="cyan")
            continue
        is_stand_in = part.name == "input" and text is None
        remark = "; stands for the text, which --text gives" if is_stand_in else ""
        output.line(f"{part.name}: {part.tokens:,} tokens{remark}", style="cyan")
        for message in part.messages:
            _print(message, output)
    output.line()
    output.line(f"tools offered beside it, not counted: {', '.join(map(one_line, tools))}", style="cyan")


def _print(message: ChatMessage, output: Output) -> None:
    place = "" if message.seq is None else f"#{message.seq} "
    speaker = f" ({one_line(message.speaker)})" if message.speaker else ""
    answers = f" answers {one_line(message.call_id)}" if message.call_id else ""
    output.line(f"{place}{message.role}{speaker}{answers}", style="dim", indent=2)
    if message.content:
        output.line(message.content, indent=6)
    for call in message.tool_calls:
        output.line(f"calls {one_line(call.name)} {call.arguments} as {one_line(call.call_id)}", indent=6)


def _as_json(context: Context, budget: int, tools: list[str]) -> dict[str, object]:
    return {
        "tokens": context.tokens,
        "budget_tokens": budget,
        "tools": tools,
        "parts": [
            {
                "name": part.name,
                "tokens": part.tokens,
                "messages": [_message_as_json(message) for message in part.messages],
            }
            for part in context.parts
        ],
    }


def _message_as_json(message: ChatMessage) -> dict[str, object]:
    content: dict[str, object] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        content["tool_calls"] = [
            {"call_id": call.call_id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls
        ]
    optional = {"call_id": message.call_id, "speaker": message.speaker, "seq": message.seq}
    return content | {name: value for name, value in optional.items() if value is not None}
