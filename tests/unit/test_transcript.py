"""Reading conversations from files: what comes out, and what is said about a file that cannot be used."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.actors.cli.transcript import read_transcript
from perdure.jobs.conversation import ImportedMessage
from perdure.storage.errors import InvalidInputError
from tests.locomo import SMALL_LOCOMO, find_locomo

AT = "2024-05-08T13:56:00"


def read(path, **options):
    return list(read_transcript(path, 1_000_000, **options))


def lines_file(folder, *entries, name="chat.jsonl"):
    path = folder / name
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return path


def test_a_locomo_file_gives_dated_messages_with_their_speakers_in_the_order_of_the_sessions():
    garden = [entry.message for entry in read(SMALL_LOCOMO) if entry.conversation == "garden"]
    assert [(message.message_id, message.speaker) for message in garden] == [
        ("D1:1", "Ines"),
        ("D1:2", "Rui"),
        ("D1:3", "Ines"),
        ("D2:1", "Rui"),
        ("D2:2", "Ines"),
        ("D10:1", "Ines"),
    ]
    assert {message.role for message in garden} == {"user"}
    assert garden[0].created_at == datetime(2024, 2, 28, 23, 58, tzinfo=UTC)
    assert garden[3].created_at == datetime(2024, 3, 1, 12, 30, tzinfo=UTC)
    assert garden[5].created_at == datetime(2024, 6, 3, 0, 5, tzinfo=UTC)
    times = [message.created_at for message in garden]
    assert times == sorted(set(times))


def test_images_of_a_locomo_message_stand_in_brackets_also_where_there_is_no_text():
    texts = {
        entry.message.message_id: entry.message.text for entry in read(SMALL_LOCOMO) if entry.conversation == "garden"
    }
    assert texts["D1:3"] == (
        "Here they are. [image: a photo of six small plants in clay pots; https://pictures.example/tomatoes.jpg]"
    )
    assert texts["D2:2"] == "[image: a photo of a cat behind a fence]"


def test_conversations_are_called_as_the_file_calls_them_else_like_the_file_and_a_prefix_changes_both(tmp_path):
    line = {"role": "user", "text": "Hi", "created_at": AT}
    path = lines_file(tmp_path, line, {**line, "conversation": "support/42"})
    assert [entry.conversation for entry in read(path)] == ["chat", "support/42"]
    assert [entry.conversation for entry in read(path, prefix="p")] == ["p", "p-support/42"]
    assert {entry.conversation for entry in read(SMALL_LOCOMO)} == {"garden", "locomo_small-2"}
    assert {entry.conversation for entry in read(SMALL_LOCOMO, prefix="p")} == {"p-garden", "p-2"}


def test_a_line_gives_a_message_and_a_time_without_a_zone_is_utc(tmp_path):
    full = {"role": "assistant", "text": "Olá", "created_at": f"{AT}+02:00", "speaker": "bot", "id": "m1"}
    bare = {"role": "user", "text": "Hi", "created_at": AT, "speaker": None}
    [first, second] = read(lines_file(tmp_path, full, bare))
    assert (first.message.role, first.message.text, first.message.speaker, first.message.message_id) == (
        "assistant",
        "Olá",
        "bot",
        "m1",
    )
    assert first.message.created_at == datetime(2024, 5, 8, 13, 56, tzinfo=timezone(timedelta(hours=2)))
    assert (second.message.created_at, second.message.speaker) == (datetime(2024, 5, 8, 13, 56, tzinfo=UTC), None)


@pytest.mark.parametrize("write", [gzip.compress, lambda content: b"\xef\xbb\xbf" + content, lambda c: b"\n \n" + c])
def test_compressed_files_byte_order_marks_and_empty_lines_change_nothing(tmp_path, write):
    lines = lines_file(tmp_path, {"role": "user", "text": "é", "created_at": AT})
    for plain in (lines, SMALL_LOCOMO):
        written = tmp_path / f"other-{plain.name}"
        written.write_bytes(write(plain.read_bytes()))
        assert [entry.message for entry in read(written)] == [entry.message for entry in read(plain)]


MESSAGES = st.lists(st.tuples(st.sampled_from(["yes", "no", "why?"]), st.sampled_from(["Ana", None])), max_size=12)


@given(messages=MESSAGES, cut=st.integers(0, 12))
def test_messages_without_ids_get_their_own_and_the_same_ones_when_the_file_has_grown(tmp_path_factory, messages, cut):
    entries = [{"role": "user", "text": text, "speaker": who, "created_at": AT} for text, who in messages]
    folder = tmp_path_factory.mktemp("lines")
    ids = [entry.message.message_id for entry in read(lines_file(folder, *entries))]
    assert len(set(ids)) == len(messages)
    assert [entry.message.message_id for entry in read(lines_file(folder, *entries[:cut]))] == ids[:cut]


GOOD = {"role": "user", "text": "Hi", "created_at": AT}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"role": "user", "text"', "line 3: no JSON"),
        ("[1]", "line 3: a JSON list"),
        ({"text": "Hi", "created_at": AT}, "line 3, role: it is missing"),
        ({**GOOD, "role": "tool"}, "line 3, role: 'tool'"),
        ({**GOOD, "role": ["user"]}, "line 3, role"),
        ({**GOOD, "text": "  "}, "line 3, text: the text is blank"),
        ({**GOOD, "text": 7}, "line 3, text: a text is a string"),
        ({**GOOD, "text": "x" * 101}, "line 3, text: the text has 101 characters, the limit is 100"),
        ({**GOOD, "created_at": "yesterday"}, "line 3, created_at: 'yesterday'"),
        ({**GOOD, "created_at": 1715176560}, "line 3, created_at: 1715176560"),
        ({**GOOD, "speaker": 7}, "line 3, speaker: a int"),
        ({**GOOD, "conversation": {}}, "line 3, conversation: a dict"),
        ({**GOOD, "content": "Hi"}, "line 3, content: it is no field"),
        ({**GOOD, "id": "m1", "text": "Bye"}, "line 3, id: 'm1' is the id of another message too (line 1)"),
        (b'{"role": "user", "text": "\xff"}', "line 3: no JSON in UTF-8"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_line_that_cannot_be_used_is_named_with_its_file_and_field(tmp_path, line, told):
    path = lines_file(tmp_path, {**GOOD, "id": "m1"}, GOOD)
    with path.open("ab") as file:
        file.write(line if isinstance(line, bytes) else (line if isinstance(line, str) else json.dumps(line)).encode())
    with pytest.raises(InvalidInputError) as caught:
        list(read_transcript(path, 100))
    assert str(caught.value).startswith(f"{path}, ")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda samples: samples.append({"role": "user"}), "sample 3, conversation: it is missing"),
        (lambda samples: samples.append(7), "sample 3, conversation: it is missing"),
        (lambda samples: session(samples).append(7), "sample 1, session_1, message 4: a int"),
        (lambda samples: session(samples)[1].update(text=None), "session_1, message 2, text: the text is empty"),
        (lambda samples: session(samples)[1].update(text=[]), "sample 1, session_1, message 2, text"),
        (lambda samples: session(samples)[1].update(dia_id="D1:1"), "message 2, id: 'D1:1' is the id of another"),
        (lambda samples: at(samples, "8 May"), "sample 1, session_1_date_time: '8 May' is no time"),
        (lambda samples: at(samples, "1:56 pm on 31 June, 2023"), "session_1_date_time"),
        (lambda samples: at(samples, "1:56 pm on 3 Juin, 2023"), "session_1_date_time"),
        (lambda samples: at(samples, None), "session_1_date_time: None is no time"),
    ],
)
def test_a_fault_in_a_locomo_file_is_named_with_sample_session_and_message(tmp_path, change, told):
    samples = json.loads(SMALL_LOCOMO.read_text())
    change(samples)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(samples))
    with pytest.raises(InvalidInputError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}, sample ")
    assert told in str(caught.value)


def session(samples):
    return samples[0]["conversation"]["session_1"]


def at(samples, time):
    samples[0]["conversation"]["session_1_date_time"] = time


def test_a_file_that_is_missing_a_folder_broken_or_cut_off_is_refused_by_name(tmp_path):
    cut_off = tmp_path / "cut.json.gz"
    cut_off.write_bytes(gzip.compress(SMALL_LOCOMO.read_bytes())[:-20])
    broken = tmp_path / "broken.json"
    broken.write_text('[{"conversation":\n {]')
    for path, told in (
        (tmp_path / "none.jsonl", "there is no such file"),
        (tmp_path, "it is no ordinary file"),
        (cut_off, "it cannot be read"),
        (broken, "line 2: no JSON"),
    ):
        with pytest.raises(InvalidInputError) as caught:
            read(path)
        assert str(path) in str(caught.value)
        assert told in str(caught.value)


def test_the_real_locomo_conversations_are_read_whole():
    path = find_locomo()
    if path is None:
        pytest.skip("no LoCoMo file; PERDURE_LOCOMO names one")
    entries = read(path)
    by_conversation: dict[str, list[ImportedMessage]] = {}
    for entry in entries:
        by_conversation.setdefault(entry.conversation, []).append(entry.message)
    assert (len(by_conversation), len(entries)) == (10, 5882)
    for messages in by_conversation.values():
        assert len({message.message_id for message in messages}) == len(messages)
        assert len({message.speaker for message in messages}) == 2
        assert all(2022 <= message.created_at.year <= 2024 for message in messages)
