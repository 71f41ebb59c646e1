"""A small run of the benchmark of recall: on a made-up conversation, and on the first of the real ones, if any."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.locomo import find_locomo

TALK = (
    "I started learning the cello last winter.",
    "How is it going? Do you have a teacher?",
    "Yes, an old man called Baltasar, every Tuesday.",
    "My own hobby is beekeeping.",
    "How many hives?",
    "Seven, behind the barn.",
)
SAMPLE = {
    "conversation": {
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": ("Ana", "Bo")[place % 2], "dia_id": f"D1:{place + 1}", "text": text}
            for place, text in enumerate(TALK)
        ],
    },
    "qa": [
        {"question": "Which instrument does Ana learn?", "answer": "cello", "evidence": ["D1:1"], "category": 4},
        {"question": "Who teaches her?", "answer": "Baltasar", "evidence": ["D1:3; D:1:2"], "category": 1},
        {"question": "How many hives does Bo have?", "answer": "seven", "evidence": ["D1:06"], "category": 1},
        {"question": "What is the name of Bo's dog?", "adversarial_answer": "?", "evidence": ["D1:4"], "category": 5},
        {"question": "Who was never mentioned?", "answer": "?", "evidence": ["D9:1"], "category": 1},
        {"question": "Nothing is named here.", "answer": "?", "evidence": [], "category": 1},
    ],
}


def figures(data: Path, *options: str) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.locomo", "--data", str(data), *options]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.mark.timeout(200)
def test_each_question_that_names_its_evidence_is_asked_and_small_talk_is_recalled_whole(tmp_path):
    data = tmp_path / "small.json"
    data.write_text(json.dumps([SAMPLE]), encoding="utf-8")
    told = figures(data)
    assert set(told) >= {"recall_at_5", "recall_at_10", "recall_at_20", "questions"}
    assert (told["questions"], told["recall_at_10"], told["recall_at_20"]) == (3, 1, 1)


@pytest.mark.skipif(find_locomo() is None, reason="the LoCoMo conversations are not here")
@pytest.mark.timeout(400)
def test_seven_tenths_of_the_evidence_in_a_real_conversation_are_among_ten_hits():
    data = find_locomo()
    assert data is not None
    told = figures(data, "--samples", "1")
    assert told["questions"] > 100
    assert told["recall_at_10"] >= 0.70
