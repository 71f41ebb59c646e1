"""The keyword index: which memories or messages of a scope have the words of a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]

from .index_records import IndexHit, RowType, SourceId, TextRow
from .index_rows import columns_of, row_id, schema_with
from .index_scope import IndexScope, is_any_of
from .keyword_forms import QueryWord, forms_of, has_enough_of, query_forms, query_words, words_of
from .lance_table import LanceTable
from .layout import index_table
from .records import AgentName
from .settings import IndexSettings
from .text import clean_text
from .write_buffer import WriteBuffer

FORMS_WEIGHT = 0.5
"""Of the score by pieces of words, beside that by whole words."""
FORMS_WIDTH = 4
"""So many times as many rows are looked at by pieces, since those with too few of them are left out."""


class KeywordIndex:
    """The words of all memories, or of all messages. Threads may share it.

    What waits to be written is written before a search, so a search sees every write that came before it.
    """

    def __init__(self, table: LanceTable, row_type: RowType, settings: IndexSettings) -> None:
        self._table = table
        self._row_type = row_type
        self._buffer = WriteBuffer(table, self._as_arrow, lambda _: 1, settings.write_batch)

    @classmethod
    def open(
        cls, folder: Path, row_type: RowType, settings: IndexSettings, *, may_create: bool = False
    ) -> KeywordIndex:
        """Open the table; `may_create`: nothing was ever indexed, so it may be missing.

        Raises:
            IndexDamagedError: It cannot be read or is missing.
        """
        path = index_table(folder, row_type, "words")
        return cls(LanceTable.open(path, _SCHEMA, settings, may_create=may_create), row_type, settings)

    @classmethod
    def rebuild(cls, folder: Path, row_type: RowType, settings: IndexSettings) -> KeywordIndex:
        """Drop whatever is there and begin anew, empty."""
        return cls(LanceTable.rebuild(index_table(folder, row_type, "words"), _SCHEMA, settings), row_type, settings)

    def upsert(self, rows: Sequence[TextRow]) -> None:
        """Put rows in the place of older ones of their sources.

        Searches see them at once; on disk they are when `flush` has returned. May be repeated.
        """
        self._buffer.upsert(rows)

    def delete(self, sources: Sequence[SourceId]) -> None:
        """Take sources out; those that are not in do no harm."""
        self._buffer.delete(sources)

    def flush(self) -> None:
        """Write what waits. What an outbox holds for this index may go when this has returned."""
        self._buffer.flush()

    def search(self, query: str, scope: IndexScope, limit: int) -> list[IndexHit]:
        """The sources of a scope that have some word of the query, best first; equally good ones by source.

        The query is text, whatever it looks like: no character of it is an operator. Very common English words
        are not looked for; of a query without any other, nothing is found.
        """
        self._buffer.flush()
        query = clean_text(query)
        condition = scope.as_filter()
        words = query_words(query)
        if not words or limit < 1:
            return []
        scores = dict(self._table.best_matching("words", words, condition, limit))
        if bent := query_forms(query):
            for source, score in self._by_pieces(bent, condition, limit):
                scores[source] = scores.get(source, 0.0) + FORMS_WEIGHT * score
        best = sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))[:limit]
        return [IndexHit(source=SourceId(source), score=score) for source, score in best]

    def _by_pieces(self, words: Sequence[QueryWord], condition: str, limit: int) -> Iterator[tuple[str, float]]:
        text = " ".join(sorted({piece for word in words for piece in word.pieces}))
        found = self._table.matching("forms", text, condition, limit * FORMS_WIDTH, ["source", "forms"])
        columns = (found.column(name).to_pylist() for name in ("source", "forms", "_score"))
        for source, forms, score in zip(*columns, strict=True):
            if has_enough_of(forms, words):
                yield source, score

    def payloads(self, sources: Sequence[SourceId]) -> dict[SourceId, str]:
        """What is kept beside the texts of these sources, as far as they are in."""
        self._buffer.flush()
        found = self._table.rows_of([row_id(source, 0) for source in sources], ["source", "payload"])
        columns = (found.column(name).to_pylist() for name in ("source", "payload"))
        return {SourceId(source): payload for source, payload in zip(*columns, strict=True)}

    def count(self, agent: AgentName | None = None) -> int:
        """How many sources are in, of an agent or of all."""
        return len(self.sources(agent))

    def sources(self, agent: AgentName | None = None) -> list[tuple[SourceId, int]]:
        """(id, revision) of every source that is in, of an agent or of all, in no order."""
        return self._buffer.stored_revisions(None if agent is None else is_any_of("agent", [agent]))

    @property
    def untidiness(self) -> float:
        """How much `tidy` would do; see `LanceTable.untidiness`."""
        return self._table.untidiness

    def tidy(self) -> None:
        """Keep the table's files few and searches fast; see `LanceTable.tidy`."""
        self._table.tidy()

    def delete_old_versions(self) -> None:
        """Leave nothing on disk of what was deleted; see `LanceTable.delete_old_versions`."""
        self.flush()
        self._table.delete_old_versions()

    def _as_arrow(self, rows: Sequence[TextRow]) -> pa.Table:
        columns = columns_of(rows, [1] * len(rows), self._row_type)
        columns["words"] = pa.array([words_of(clean_text(row.text)) for row in rows], pa.string())
        columns["forms"] = pa.array([forms_of(clean_text(row.text)) for row in rows], pa.string())
        columns["payload"] = pa.array([row.payload for row in rows], pa.string())
        return pa.table(columns, schema=_SCHEMA)


_SCHEMA = schema_with(*(pa.field(name, pa.string()) for name in ("words", "forms", "payload")))
