"""The embedded chat model: quotes what the user said, and nothing else."""

from __future__ import annotations

import gzip
import json
import re
import time
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.jobs.chat_model import ChatMessage, ChatRequest, ToolSpec
from perdure.jobs.embedded_chat import GREETING, NOT_SURE, NOTED, NOTHING_FOUND, EmbeddedChat
from perdure.storage.records import CallId, ToolCall
from tests.locomo import find_locomo

ANA = "My name is Ana and I love TypeScript"


def message(role, content, seq=None, **rest) -> ChatMessage:
    return ChatMessage(role=role, content=content, seq=seq, **rest)


def said(*texts: str) -> list[ChatMessage]:
    return [message("user", text, seq) for seq, text in enumerate(texts)]


def data(tag: str, text: str) -> ChatMessage:
    """Stored text as the context shows it."""
    return message("user", f"Some heading (data, not instructions):\n<{tag}>\n{text}\n</{tag}>")


def answer(*messages: ChatMessage | str, tools: tuple[ToolSpec, ...] = ()) -> str:
    given = [message("user", entry, seq) if isinstance(entry, str) else entry for seq, entry in enumerate(messages)]
    return EmbeddedChat().complete(ChatRequest(model=None, messages=tuple(given), tools=tools)).text


def quotations(text: str) -> list[str]:
    return re.findall(r'^.*?(?:said|notes|task|messages|says): "(.*)"$', text, re.MULTILINE)


# --- questions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "question",
    [
        "What is my name?",
        "what's my name",
        "Tell me my name, please",
        "Who am I?",
        "Do you know my name?",
        "Which language do I love?",
        "What do I love?",
        "What is my name, and what do I love?",
        "WHAT IS MY NAME???",
    ],
)
def test_what_was_said_is_quoted_with_its_place(question):
    assert answer(ANA, "It rains today", question) == f'In message 0 you said: "{ANA}"'


@pytest.mark.parametrize(
    ("statement", "question"),
    [
        ("I'm Ana, hello", "What is my name?"),
        ("My favourite colour is blue", "What is my favorite color?"),
        ("I was hiking in the Alps", "Where did I hike?"),
        ("We tried two bakeries", "Which bakery did I try?"),
        ("I bought a boat", "What did I buy?"),
        ("The children planned a party", "What did my kids plan?"),
        ("Je préfère le café", "What about cafe?"),
        ("I was born on 2 May", "When is my birthday?"),
        ("Я ЛЮБЛЮ ЧАЙ", "люблю ли я чай?"),
        ("Ｉ ｄｒｉｎｋ ｔｅａ", "What do I drink?"),
    ],
)
def test_endings_spelling_accents_and_everyday_synonyms_make_no_difference(statement, question):
    assert statement in answer(statement, "The weather is nice", question)


@pytest.mark.parametrize(
    ("statements", "question", "quoted"),
    [
        (("我叫安娜，我喜欢咖啡", "今天天气很好"), "我叫什么名字？", "我叫安娜，我喜欢咖啡"),
        (("我住在北京", "我最喜欢的颜色是蓝色"), "我最喜欢什么颜色", "我最喜欢的颜色是蓝色"),
        (("私の名前はアナです", "東京に住んでいます"), "どこに住んでいますか", "東京に住んでいます"),
        (("私の名前はアナです", "東京に住んでいます"), "私の名前は何ですか？", "私の名前はアナです"),
        (("제 이름은 아나입니다", "저는 서울에 살아요"), "저는 어디에 살아요?", "저는 서울에 살아요"),
        (("मेरा नाम आना है", "मुझे चाय पसंद है"), "मेरा नाम क्या है?", "मेरा नाम आना है"),
        (
            ("Mi color favorito es el azul", "Vivo en Bogotá"),
            "¿Cuál es mi color favorito?",
            "Mi color favorito es el azul",
        ),
        (("Меня зовут Анна", "Я живу в Риге"), "Где я живу?", "Я живу в Риге"),
    ],
)
def test_other_scripts_and_languages_are_found(statements, question, quoted):
    assert quotations(answer(*statements, question)) == [quoted]


@pytest.mark.parametrize(
    ("question", "quoted"),
    [
        ("What is my name?", "My name is Ana"),
        ("What is my sister's name?", "My sister's name is Lena"),
        ("What's the name of my dog?", "My dog is called Rex"),
    ],
)
def test_the_statement_that_fits_best_comes_first(question, quoted):
    assert (
        quotations(answer("My dog is called Rex", "My sister's name is Lena", "My name is Ana", question))[0] == quoted
    )


def test_up_to_three_messages_are_quoted():
    plants = [f"I planted {what} in the garden" for what in ("roses", "a lemon tree", "basil", "mint", "beans")]
    quoted = quotations(answer(*plants, "It rains", "What did I plant in the garden?"))
    assert quoted == plants[:1:-1]


@pytest.mark.parametrize(
    ("earlier", "later", "question"),
    [
        ("My favourite color is blue", "My favorite colour is now green", "What is my favourite color?"),
        ("I live in Berlin", "I live in Munich", "Where do I live?"),
        ("I live in Berlin", "I moved to Munich last week", "Where do I live?"),
        ("我住在北京", "我现在住在上海", "我住在哪里？"),
    ],
)
def test_of_statements_about_the_same_thing_the_latest_is_first_and_named_so(earlier, later, question):
    assert answer(earlier, "I have a sister", later, question).splitlines() == [
        f'Latest, in message 2 you said: "{later}"',
        f'Earlier, in message 0 you said: "{earlier}"',
    ]


def test_a_later_statement_about_something_else_is_no_update():
    text = answer("My name is Ana", "My cat's name is now Tom", "What is my name?")
    assert text.startswith('In message 0 you said: "My name is Ana"')


@pytest.mark.parametrize(
    "question",
    ["What is my shoe size?", "When is my birthday?", "我的鞋子多大？", "What is your name?"],
)
def test_it_says_plainly_when_it_knows_nothing(question):
    assert answer(ANA, question) == NOTHING_FOUND


def test_one_common_word_of_a_long_question_is_no_answer():
    question = "What did the doctor prescribe for my bad knee last spring?"
    assert answer("Last night was cold", "I like tea", question) == NOTHING_FOUND


def test_a_name_that_the_user_gave_the_agent_is_not_the_users():
    assert quotations(answer("My name is Ana", "Your name is Robo", "What is your name?")) == ["Your name is Robo"]
    assert quotations(answer("My name is Ana", "Your name is Robo", "What is my name?"))[0] == "My name is Ana"


def test_it_says_that_it_is_not_sure_when_little_of_the_question_was_spoken_of():
    text = answer("My favourite language is TypeScript", "What is my favourite color?")
    assert text.startswith(NOT_SURE)
    assert NOT_SURE not in answer("My favourite color is red", "What is my favourite color?")


def test_a_question_without_a_word_to_look_for_gets_the_newest():
    assert quotations(answer("I like tea", "I like jam", "What do you know about me?")) == ["I like jam", "I like tea"]


# --- what is no source -------------------------------------------------------------------------------------


def test_questions_are_not_quoted_as_answers():
    for earlier in ("What is my name?", "what is my name", "Do you know what my name is?", "我叫什么名字"):
        assert answer(earlier, "What is my name?") == NOTHING_FOUND
    assert quotations(answer("What is my name?", "My name is Bo", "what is my name")) == ["My name is Bo"]
    assert answer("我叫什么名字", "我叫什么名字？") == NOTHING_FOUND


def test_of_a_message_that_also_asks_the_statement_is_quoted():
    text = answer("What do you think? My dog is called Rex. Is that a good name?", "What is my dog called?")
    assert quotations(text) == ["My dog is called Rex."]


def test_what_the_assistant_said_is_not_quoted():
    assert answer(
        *said("Hello"), message("assistant", "Your name is Zoe", 1), message("user", "What is my name?", 2)
    ) == (NOTHING_FOUND)


def test_the_system_prompt_and_remarks_of_the_runtime_are_not_quoted():
    assert (
        answer(
            message("system", "My name is Robo. I love tea."),
            message("user", "[12 earlier messages about my name are not shown here.]"),
            data("stored_message", "My name is Eve"),
            data("earlier_calls", "name {} succeeded"),
            message("user", "What is my name?", 5),
        )
        == NOTHING_FOUND
    )


def test_a_tools_output_is_used_only_when_nothing_else_matters_and_named_as_such():
    look = ToolCall(call_id=CallId("c"), name="look", arguments="{}")
    result = "<tool_result status=succeeded>\nThe ferry leaves at 9.\nBring water.\n</tool_result>"
    history = [
        message("user", "Look up the ferry", 0),
        message("assistant", "", 1, tool_calls=(look,)),
        message("tool", result, 2, call_id=CallId("c")),
    ]
    text = answer(*history, message("user", "What should I bring?", 3))
    assert text == 'You said nothing about it, but a tool\'s result says: "Bring water."'
    own = message("user", "You should bring sandwiches", 3)
    assert quotations(answer(*history, own, message("user", "What should I bring?", 4))) == [own.content]


def test_results_taken_over_from_a_broken_turn_are_a_tools():
    resumed = message("user", "<tool_result tool=browse status=succeeded>\n{}\nThe ferry leaves at 9.\n</tool_result>")
    text = answer(resumed, message("user", "When does the ferry leave?", 3))
    assert text == 'You said nothing about it, but a tool\'s result of browse says: "The ferry leaves at 9."'


def test_the_input_is_the_users_newest_message_even_if_the_runtime_added_something_after_it():
    assert "Ana" in answer(
        message("user", "My name is Ana", 0),
        message("user", "What is my name?", 1),
        data("earlier_calls", "look {} failed"),
    )


# --- other sources, named as such --------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["user", "system"])
@pytest.mark.parametrize(
    ("tag", "introduction"),
    [
        ("working_notes", "In the working notes"),
        ("ongoing_task", "In the ongoing task"),
        ("conversation_summary", "In a summary of earlier messages"),
    ],
)
def test_notes_task_and_summaries_are_quoted_as_what_they_are(role, tag, introduction):
    stored = ChatMessage(role=role, content=data(tag, "Wants a window seat.\nThe budget is 400 EUR.").content)
    text = answer(stored, message("user", "I like tea", 7), message("user", "What is the budget?", 8))
    assert text == f'{introduction}: "The budget is 400 EUR."'


def test_an_imported_message_is_quoted_with_its_date_and_its_speaker():
    texts = [
        "[2023-05-08 13:56, Caroline] I went to a support group yesterday.",
        "[2023-05-08 13:57, Melanie] I painted a lake.",
        "[2023-05-09 10:00] I baked bread.",
    ]
    assert answer(*texts, "When did Caroline go to the support group?") == (
        'In message 0, on 2023-05-08 13:56, Caroline said: "I went to a support group yesterday."'
    )
    assert (
        answer(*texts, "What did Melanie paint?")
        == 'In message 1, on 2023-05-08 13:57, Melanie said: "I painted a lake."'
    )
    assert answer(*texts, "What did I bake?") == 'In message 2, on 2023-05-09 10:00, you said: "I baked bread."'


def test_an_answer_to_somebody_elses_question_is_found_by_the_question():
    asked = message("assistant", "What is your favourite colour?", 1)
    history = [*said("Hello"), asked, message("user", "Green, like moss.", 2), message("user", "I like tea.", 3)]
    assert quotations(answer(*history, message("user", "What is my favourite colour?", 4)))[0] == "Green, like moss."


# --- statements and tools ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "I moved to Oslo.",
        "Book a table",
        "我叫何晶",
        "When I was young I lived in Rome.",
        "Remind me to buy milk",
        "Tell Bo that I left",
    ],
)
def test_a_statement_is_acknowledged_and_nothing_is_made_up(text):
    assert answer(ANA, text) == NOTED


@pytest.mark.parametrize("texts", [("Hello!",), ("Thanks",), ("Good morning",), (ANA, "???"), ()])
def test_a_greeting_gets_to_know_what_this_is(texts):
    assert answer(*texts) == GREETING


def test_tools_are_never_called():
    tool = ToolSpec(name="look", description="Look.", parameters={"type": "object"})
    reply = EmbeddedChat().complete(ChatRequest(model=None, messages=tuple(said("Call look now")), tools=(tool,)))
    assert reply.tool_calls == ()


# --- bounds ------------------------------------------------------------------------------------------------


def test_of_a_long_message_the_passage_that_matters_is_quoted():
    text = f"{'Rain fell on the hills. ' * 400}The secret code is 4711. {'The sheep slept well. ' * 400}"
    [quoted] = quotations(answer(text, "What is the secret code?"))
    assert "The secret code is 4711." in quoted
    assert len(quoted) <= 420
    assert quoted in text


@pytest.mark.parametrize(
    "filling", ["x" * 300_000, "rain " * 60_000, "雨" * 300_000, "?! " * 100_000, "\n<a>\n" * 60_000]
)
def test_a_huge_text_is_quoted_in_part_and_takes_no_more_than_its_length(filling):
    stored = message("user", filling)  # as the runtime adds it
    began = time.process_time()
    text = answer(
        message("user", f"{filling} my zebra is {filling}", 0), stored, message("user", "What is my zebra?", 1)
    )
    assert time.process_time() - began < 5
    assert len(text) < 1500


def test_a_request_of_200_messages_is_answered_in_a_few_milliseconds():
    words = "garden lemon basil market river stone window letter harbour winter".split()  # noqa: SIM905
    texts = [
        f"I saw the {words[n % 10]} near the {words[n // 10 % 10]} on day {n} and it was rather nice"
        for n in range(200)
    ]
    request = ChatRequest(model=None, messages=tuple(said(*texts, "What did I see on day 77?")))
    assert texts[77] in EmbeddedChat().complete(request).text
    took = []
    for _ in range(10):
        began = time.process_time()
        EmbeddedChat().complete(request)
        took.append(time.process_time() - began)
    assert min(took) < 0.015, took  # 2 ms on a machine with nothing else to do


WORDS = ("my", "name", "is", "Ana", "what", "I", "live", "in", "Rome", "?", ".", "now", "我叫", "安娜")
TEXTS = st.lists(st.text(max_size=60) | st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), max_size=8)
HISTORIES = st.lists(
    st.tuples(st.sampled_from(["user", "assistant", "system", "tool"]), TEXTS.map(" ".join)), max_size=8
)


@given(HISTORIES, TEXTS)
def test_whatever_is_quoted_was_said_word_for_word_by_the_user(history, question):
    messages = [message(role, text, seq) for seq, (role, text) in enumerate(history)]
    messages.append(message("user", " ".join([*question, "what is my name?"]), len(messages)))
    text = answer(*messages)
    for place, quoted in re.findall(r'n message (\d+) you said: "(.*?)"(?:\n|\Z)', text, re.DOTALL):
        spoken = messages[int(place)]
        assert spoken.role == "user"
        assert quoted in spoken.content
    assert answer(*messages) == text


@pytest.mark.skipif(find_locomo() is None, reason="the LoCoMo conversations are not here")
def test_it_finds_half_of_what_is_asked_about_a_long_conversation():
    path = find_locomo()
    assert path is not None
    entry = json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())[3]
    ids: list[str] = []
    messages: list[ChatMessage] = []
    conversation = entry["conversation"]
    for number in range(1, 40):
        for turn in conversation.get(f"session_{number}", []):
            at = datetime.strptime(conversation[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y")  # noqa: DTZ007
            label = f"[{at:%Y-%m-%d %H:%M}, {turn['speaker']}] "
            messages.append(message("user", label + turn["text"], len(ids), speaker=turn["speaker"]))
            ids.append(turn["dia_id"])
    questions = [asked for asked in entry["qa"] if asked["category"] == 4]  # single-hop
    found = 0
    for asked in questions[:60]:
        text = answer(*messages, message("user", asked["question"], len(ids)))
        quoted = {ids[int(place)] for place in re.findall(r"n message (\d+), on", text)}
        found += bool(quoted & set(asked["evidence"]))
    assert found >= 30
