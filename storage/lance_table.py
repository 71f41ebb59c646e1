"""A LanceDB table that holds an index: opened, written in one commit at a time, searched, and kept small.

Only this module imports lancedb. LanceDB does not sync its files to the disk, so a table is never the only copy
of anything: what it is made from is in DuckDB, and `rebuild` begins it anew.

It is used through its asynchronous interface, on an event loop of this module's: the synchronous one crosses to a loop
five times for one search, which takes longer than the search.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from .errors import IndexDamagedError
from .index_rows import SCOPE_COLUMNS
from .index_scope import is_any_of
from .lance_errors import index_errors
from .settings import IndexSettings
from .shared_lock import SharedLock

os.environ.setdefault("LANCEDB_LOG", "error")  # it warns of every partition to which a tidying adds nothing

import lancedb  # its import reads the variable above
from lancedb.index import FTS, Bitmap, BTree, IvfFlat
from lancedb.query import MatchQuery

IDS_PER_FILTER = 1000
LATEST_TIDY = 2
"""Without `tidy`, a write does its work itself once this many times as much is due."""
MOST_SOURCES = 200_000
"""Of rows that were found lately that are kept: about 30 MiB."""
PROBES = 24
"""Partitions of the inverted index of vectors that a search looks into."""
_NO_TIME = timedelta(milliseconds=1)
"""The shortest that LanceDB takes without a warning."""

TEXT_INDEXES: Mapping[str, FTS] = {
    "words": FTS(base_tokenizer="icu", max_token_length=128, remove_stop_words=False, num_workers=1),
    "forms": FTS(base_tokenizer="whitespace", stem=False, remove_stop_words=False, ascii_folding=False, num_workers=1),
}
"""By column. `words`: stems of English, words of any script by its dictionary or spaces. `forms`: as they come."""

Result = TypeVar("Result")

_match: Any = MatchQuery  # type checkers do not see its defaults
_loop = asyncio.new_event_loop()
threading.Thread(target=_loop.run_forever, name="lance", daemon=True).start()


def waited(work: Coroutine[Any, Any, Result]) -> Result:
    """What comes of work on this module's event loop; the calling thread waits."""
    return asyncio.run_coroutine_threadsafe(work, _loop).result()


class LanceTable:
    """One table and its only writer. Threads may share it; writes wait for each other, reads for none of them.

    Only the removal of old versions waits for the reads that may be in one, and new reads for it.
    """

    def __init__(self, path: Path, table: lancedb.AsyncTable, schema: pa.Schema, settings: IndexSettings) -> None:
        self.path = path
        self._table = table
        self._schema = schema
        self._settings = settings
        self._writing = threading.RLock()
        self._versions = SharedLock()
        self._commits_since_tidy = self._rows_since_tidy = 0
        self._sources: dict[int, str] = {}
        """By row id, of rows that were found lately."""

    @classmethod
    def open(cls, path: Path, schema: pa.Schema, settings: IndexSettings, *, may_create: bool) -> LanceTable:
        """Open `<path>.lance`; where there is none and nothing was ever indexed, make it.

        Raises:
            IndexDamagedError: It cannot be read, is not there, or has other columns.
        """
        with index_errors(path):
            if not _folder(path).exists():
                if not may_create:
                    raise IndexDamagedError(str(path), "is not there; run `perdure reindex`")
                return cls.rebuild(path, schema, settings)
            table, stored = waited(_opened(path))
            if stored.names != schema.names:
                raise IndexDamagedError(str(path), "has columns of another version; run `perdure reindex`")
            waited(table.query().select(["id", "revision"]).limit(1).to_arrow())
            opened = cls(path, table, stored, settings)
            opened.make_indexes()  # a process that died may have left some out
            return opened

    @classmethod
    def rebuild(cls, path: Path, schema: pa.Schema, settings: IndexSettings) -> LanceTable:
        """Drop whatever is there, readable or not, and make an empty table."""
        with index_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(_folder(path), ignore_errors=True)
            made = cls(path, waited(_created(path, schema)), schema, settings)
            made.make_indexes()
            return made

    @property
    def metadata(self) -> Mapping[bytes, bytes]:
        """What the schema says beside its columns."""
        return self._schema.metadata or {}

    @property
    def versions(self) -> int:
        """How many versions of the table are on disk."""
        return len(waited(self._table.list_versions()))  # type: ignore[no-untyped-call]

    def make_indexes(self) -> None:
        """Make the indexes that are not there."""
        there = self.indexed_columns()
        names = self._schema.names
        wanted: dict[str, Any] = {column: Bitmap() for column in SCOPE_COLUMNS}
        wanted |= {"id": BTree()} | {column: index for column, index in TEXT_INDEXES.items() if column in names}
        for column, config in wanted.items():
            if column not in there:
                waited(self._table.create_index(column, config=config))

    # --- writing -------------------------------------------------------------------------------------------

    def commit(self, rows: pa.Table, deleted_ids: Sequence[str]) -> None:
        """Put rows in the place of those with the same id and delete others, all at once or nothing."""
        with self._writing, index_errors(self.path):
            if len(rows):
                merge = self._table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
                if deleted_ids:
                    merge = merge.when_not_matched_by_source_delete(is_any_of("id", deleted_ids))
                executed: Any = merge.execute(rows)  # declared as what the synchronous interface gives
                waited(executed)
                self._note_commit(len(rows))
            else:
                for begin in range(0, len(deleted_ids), IDS_PER_FILTER):
                    waited(self._table.delete(is_any_of("id", deleted_ids[begin : begin + IDS_PER_FILTER])))
                    self._note_commit(0)

    def _note_commit(self, rows: int) -> None:
        self._commits_since_tidy += 1
        self._rows_since_tidy += rows
        if self.untidiness >= LATEST_TIDY:
            self.tidy()

    @property
    def untidiness(self) -> float:
        """How much `tidy` would do: 0, nothing; from 1 on, it is due."""
        return max(
            self._commits_since_tidy / self._settings.tidy_commits, self._rows_since_tidy / self._settings.tidy_rows
        )

    def tidy(self) -> None:
        """Put small files together, index the rows that are not yet, remove old versions: 0.1 s for 10,000 rows."""
        with self._writing, index_errors(self.path):
            self._make_vector_index()
            waited(self._table.optimize())
            self._remove_old_versions()

    def _remove_old_versions(self) -> None:
        # A version is old when a newer one is there, however long it was the newest: a read may just have begun in
        # it. Nobody else writes, so a file that no version knows was left by a process that died.
        with self._versions.alone():
            waited(self._table.optimize(cleanup_older_than=_NO_TIME, delete_unverified=True))
            self._sources = {}
        self._commits_since_tidy = self._rows_since_tidy = 0

    def _make_vector_index(self) -> None:
        if "vector" not in self._schema.names or self.has_vector_index():
            return
        if waited(self._table.count_rows()) > self._settings.flat_rows:
            waited(self._table.create_index("vector", config=IvfFlat(distance_type="dot")))

    def has_vector_index(self) -> bool:
        """Is there an inverted index of the vectors?"""
        return "vector" in self.indexed_columns()

    def indexed_columns(self) -> set[str]:
        """The columns that have an index."""
        return {column for index in waited(self._listed_indexes()) for column in index.columns}

    async def _listed_indexes(self) -> Iterable[Any]:
        return await self._table.list_indices()

    def delete_old_versions(self) -> None:
        """Write the table anew and remove everything else, so that no file holds what was deleted.

        Compaction alone leaves deleted rows in their files until they are a tenth of them, and deleted words in
        the text index.
        """
        with self._writing, index_errors(self.path):
            # The synchronous interface takes what it reads in batches.
            with self._versions.alone():
                table = lancedb.connect(self.path.parent).open_table(self.path.name)
                table.add(table.search().to_batches(), mode="overwrite")  # drops the indexes
                waited(self._table.checkout_latest())  # type: ignore[no-untyped-call]
                self._sources = {}
            self.make_indexes()
            self._make_vector_index()
            self._remove_old_versions()

    # --- reading -------------------------------------------------------------------------------------------

    def count(self, condition: str | None = None) -> int:
        """How many rows fulfil a condition."""
        with self._reading():
            return waited(self._table.count_rows(condition))

    def rows(self, condition: str | None, columns: Sequence[str]) -> pa.Table:
        """The rows that fulfil a condition, in no order."""
        with self._reading():
            query = self._table.query().select(list(columns))
            return waited((query if condition is None else query.where(condition)).to_arrow())

    def rows_of(self, ids: Sequence[str], columns: Sequence[str]) -> pa.Table:
        """The rows with these ids, as far as they are there."""
        parts = [ids[begin : begin + IDS_PER_FILTER] for begin in range(0, len(ids), IDS_PER_FILTER)] or [[]]
        return pa.concat_tables([self.rows(is_any_of("id", part), columns) for part in parts])

    def nearest(self, vector: NDArray[np.float32], condition: str, limit: int, *, is_exact: bool) -> pa.Table:
        """The rows nearest to a vector: `source`, `_distance` (1 less the dot product), nearest first."""
        with self._reading():
            query = self._table.query().nearest_to(vector).column("vector").distance_type("dot")
            query = query.bypass_vector_index() if is_exact else query.nprobes(PROBES)
            return waited(query.where(condition).select(["source", "_distance"]).limit(limit).to_arrow())

    def matching(self, column: str, text: str, condition: str, limit: int, columns: Sequence[str]) -> pa.Table:
        """The rows that have some term of a text, best first: the columns and `_score` (BM25). No text is syntax."""
        with self._reading():
            query = self._table.query().nearest_to_text(_match(text, column))
            return waited(query.where(condition).select([*columns, "_score"]).limit(limit).to_arrow())

    def best_matching(self, column: str, text: str, condition: str, limit: int) -> list[tuple[str, float]]:
        """As `matching`: source and score of each row. Sources read before are not read again.

        That a row id has a source is true for as long as the files are: a row that is written anew has another id.
        """
        with self._reading():
            query = self._table.query().nearest_to_text(_match(text, column)).where(condition)
            found = waited(query.select(["_rowid", "_score"]).limit(limit).to_arrow())
            rows = found.column("_rowid").to_pylist()
            known = self._sources
            if len(known) > MOST_SOURCES:
                known = self._sources = {}
            if unknown := [row for row in rows if row not in known]:
                known |= waited(self._read_sources(unknown))
            if all(row in known for row in rows):
                return [
                    (known[row], score) for row, score in zip(rows, found.column("_score").to_pylist(), strict=True)
                ]
        found = self.matching(column, text, condition, limit, ["source"])  # some were just written anew
        return list(zip(found.column("source").to_pylist(), found.column("_score").to_pylist(), strict=True))

    async def _read_sources(self, rows: Sequence[int]) -> dict[int, str]:
        found = await self._table.take_row_ids(list(rows)).select(["source"]).with_row_id().to_arrow()
        return dict(zip(found.column("_rowid").to_pylist(), found.column("source").to_pylist(), strict=True))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._versions.shared(), index_errors(self.path):
            yield


def _folder(path: Path) -> Path:
    return path.with_name(f"{path.name}.lance")


async def _opened(path: Path) -> tuple[lancedb.AsyncTable, pa.Schema]:
    table = await (await lancedb.connect_async(path.parent)).open_table(path.name)
    return table, await table.schema()


async def _created(path: Path, schema: pa.Schema) -> lancedb.AsyncTable:
    return await (await lancedb.connect_async(path.parent)).create_table(path.name, schema=schema)
