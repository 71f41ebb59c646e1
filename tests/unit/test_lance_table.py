"""A table of an index: its upkeep beside its readers, and what goes wrong with it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from perdure.storage.errors import DataDirectoryError, DiskFullError, IndexDamagedError, IndexUnavailableError
from perdure.storage.index_rows import columns_of, schema_with
from perdure.storage.lance_errors import index_errors
from perdure.storage.lance_table import LanceTable, waited
from perdure.storage.settings import IndexSettings
from tests.fixtures.index_rows import text_row

SCHEMA = schema_with(pa.field("words", pa.string()))


def opened(folder: Path, schema: pa.Schema = SCHEMA) -> LanceTable:
    return LanceTable.open(folder / "memory_words", schema, IndexSettings(), may_create=True)


def rows(*numbers: int) -> pa.Table:
    columns = columns_of([text_row(f"m{number}", "") for number in numbers], [1] * len(numbers), "memory")
    return pa.table({**columns, "words": pa.array([f"word{number}" for number in numbers])}, schema=SCHEMA)


def test_old_versions_stay_while_a_read_is_in_one(tmp_path):
    table = opened(tmp_path)
    for number in range(5):
        table.commit(rows(number), [])
    is_reading, may_end = threading.Event(), threading.Event()

    def read() -> None:
        with table._reading():
            is_reading.set()
            may_end.wait(20)

    reader, tidying = threading.Thread(target=read), threading.Thread(target=table.tidy)
    reader.start()
    assert is_reading.wait(20)
    tidying.start()
    tidying.join(0.5)
    assert tidying.is_alive()
    assert table.versions > 5
    may_end.set()
    tidying.join(20)
    reader.join(20)
    assert table.versions <= 2
    assert table.count() == 5


def test_a_commit_puts_in_and_takes_out_at_once(tmp_path):
    table = opened(tmp_path)
    table.commit(rows(1, 2, 3), [])
    version = waited(table._table.version())
    table.commit(rows(3, 4), ["m1#0", "m'2#0"])
    assert waited(table._table.version()) == version + 1
    assert sorted(table.rows(None, ["id"]).column("id").to_pylist()) == ["m2#0", "m3#0", "m4#0"]


def test_a_table_with_other_columns_is_damaged_until_it_is_rebuilt(tmp_path):
    opened(tmp_path)
    with pytest.raises(IndexDamagedError, match="columns of another version"):
        opened(tmp_path, schema_with())


def test_indexes_that_a_killed_process_left_out_are_made_when_it_is_opened(tmp_path):
    table = opened(tmp_path)
    table.commit(rows(1), [])
    for index in list(waited(table._table.list_indices())):
        waited(table._table.drop_index(index.name))
    assert opened(tmp_path).indexed_columns() == {"id", "agent", "contact", "words"}


def test_a_source_is_told_right_while_rows_are_replaced_files_put_together_and_the_table_written_anew(tmp_path):
    table = opened(tmp_path)
    numbers = range(40)
    table.commit(rows(*numbers), [])

    def check(present: range) -> None:
        for number in numbers:
            found = [source for source, _ in table.best_matching("words", f"word{number}", "contact IS NULL", 5)]
            assert found == ([f"m{number}"] if number in present else []), number

    check(numbers)
    for number in reversed(numbers):
        table.commit(rows(number), [])
    check(numbers)
    table.tidy()
    check(numbers)
    table.commit(rows(*range(20, 40)), [f"m{number}#0" for number in range(10)])
    check(range(10, 40))
    table.delete_old_versions()
    check(range(10, 40))
    table.commit(rows(*reversed(numbers)), [])
    check(numbers)


@pytest.mark.parametrize(
    ("raised", "kind", "retryable"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), DiskFullError, True),
        (RuntimeError("lance error: LanceError(IO): No space left on device (os error 28)"), DiskFullError, True),
        (RuntimeError("lance error: Permission denied (os error 13)"), DataDirectoryError, False),
        (RuntimeError("lance error: Retryable commit conflict for version 7"), IndexUnavailableError, True),
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), IndexUnavailableError, True),
        (RuntimeError("lance error: Not found: x/data/1.lance"), IndexDamagedError, False),
        (ValueError("Invalid input, file does not appear to be a Lance file"), IndexDamagedError, False),
    ],
)
def test_what_went_wrong_says_whether_to_repeat_or_to_reindex(raised, kind, retryable):
    path = Path("/data/no space left on device/conflict")  # phrases may stand in a path
    with pytest.raises(kind) as caught, index_errors(path):
        raise raised
    assert type(caught.value) is kind
    assert caught.value.retryable is retryable
    assert str(path) in str(caught.value)
    assert ("perdure reindex" in str(caught.value)) == (kind is IndexDamagedError)


def test_the_records_load_without_the_database(tmp_path):
    program = (
        "import sys\n"
        "from perdure.storage import records, index_records, index_scope, keyword_forms, errors, settings\n"
        "print(sorted({'lancedb', 'pyarrow', 'duckdb', 'ray'} & set(sys.modules)))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path,
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert ended.stdout == "[]\n", ended.stderr
