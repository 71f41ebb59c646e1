"""How lately and how often memories were used, as columns: recall asks it of every memory there is, each time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from .memory_records import Touch

FIRST_CAPACITY = 16


class Touches(Sequence[Touch]):
    """Touches in no order: as a sequence one by one, as arrays all at once."""

    def __init__(self, rows: NDArray[np.int64], touched_s: NDArray[np.float64], counts: NDArray[np.int64]) -> None:
        self.rows = rows
        self.touched_s = touched_s
        self.counts = counts

    @classmethod
    def of(cls, touches: Iterable[Touch]) -> Touches:
        """Touches as columns."""
        if isinstance(touches, Touches):
            return touches
        every = list(touches)
        return cls(
            np.array([touch.row_id for touch in every], np.int64),
            np.array([touch.touched_s for touch in every], np.float64),
            np.array([touch.access_count for touch in every], np.int64),
        )

    @classmethod
    def joined(cls, parts: Sequence[Touches]) -> Touches:
        """All of them; a copy, which no change reaches."""
        if not parts:
            return cls.of(())
        return cls(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.touched_s for part in parts]),
            np.concatenate([part.counts for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> Touch: ...
    @overload
    def __getitem__(self, place: slice) -> Touches: ...
    def __getitem__(self, place: int | slice) -> Touch | Touches:
        if isinstance(place, slice):
            return Touches(self.rows[place], self.touched_s[place], self.counts[place])
        return Touch(
            row_id=int(self.rows[place]),
            touched_s=float(self.touched_s[place]),
            access_count=int(self.counts[place]),
        )

    def __iter__(self) -> Iterator[Touch]:
        return (self[place] for place in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Touches({list(self)!r})"


class TouchColumns:
    """Touches that come and go. For one thread at a time."""

    def __init__(self) -> None:
        self._place_of: dict[int, int] = {}
        self._rows = np.empty(FIRST_CAPACITY, np.int64)
        self._touched_s = np.empty(FIRST_CAPACITY, np.float64)
        self._counts = np.empty(FIRST_CAPACITY, np.int64)

    def __len__(self) -> int:
        return len(self._place_of)

    def put(self, row: int, touched_s: float, count: int) -> None:
        """Note a memory's use, in the place of what was noted of it before."""
        place = self._place_of.setdefault(row, len(self._place_of))
        if place == len(self._rows):
            self._rows, self._touched_s, self._counts = (
                np.concatenate([column, np.empty_like(column)])
                for column in (self._rows, self._touched_s, self._counts)
            )
        self._rows[place], self._touched_s[place], self._counts[place] = row, touched_s, count

    def remove(self, row: int) -> None:
        """Forget a memory; the last one takes its place."""
        place, last = self._place_of.pop(row), len(self._place_of)
        if place != last:
            for column in (self._rows, self._touched_s, self._counts):
                column[place] = column[last]
            self._place_of[int(self._rows[place])] = place

    def view(self) -> Touches:
        """All of them, until the next change."""
        count = len(self._place_of)
        return Touches(self._rows[:count], self._touched_s[:count], self._counts[:count])
