"""A DuckDB file and the one process that holds it: opening, transactions, and errors that name the file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from .database_errors import errors_naming
from .errors import FileCorruptError
from .fence import Fence
from .liveness import is_running
from .schema import Migration, migrate, migrations

BLOCK_SIZE = 16384
"""Bytes; the smallest that DuckDB takes. A conversation of 20 messages fits in a few of them."""
WAL_LIMIT = "16MiB"
"""DuckDB folds a larger log into the file by itself, inside a commit; `fold_wal` does it earlier, outside."""


class Transaction:
    """The writes of one step. They are sent together, when the block that collects them has ended."""

    def __init__(self) -> None:
        self.statements: list[tuple[str, Sequence[object]]] = []

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> None:
        """Add a statement; it has no result."""
        self.statements.append((sql, parameters))


class Database:
    """An open file. One thread writes through `transaction`; other threads read through `reader`.

    A failure may make DuckDB give the file up (a disk that fills up in the middle of `fold_wal`, say); every
    later call then raises a `StorageError` too. Closed and opened again, the file has all that was committed.
    """

    def __init__(self, path: Path, connection: duckdb.DuckDBPyConnection) -> None:
        self.path = path
        self._connection = connection
        self.fence: Fence | None = None
        """Checked around every commit, where there is one."""
        self._inserting: duckdb.DuckDBPyConnection | None = None
        self._parsed: dict[str, duckdb.Statement] = {}

    @classmethod
    def open(cls, path: Path, family: str, memory_limit_mib: int = 64) -> Database:
        """Open a file, or create it whole, with the newest schema of its family.

        A new file gets its name only once it is complete, so a crash never leaves half of one.

        Raises:
            FileInUseError: Another process holds it.
            FileTooNewError, FileCorruptError: It is left as it is.
            DataDirectoryError, DiskFullError: It cannot be created or written.
        """
        steps = migrations(family)
        with errors_naming(path):
            if not path.exists():
                _create(path, steps, memory_limit_mib)
            connection = _connect(path, memory_limit_mib)
            try:
                migrate(connection, str(path), steps)
            except BaseException:
                connection.close()
                raise
        return cls(path, connection)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """One transaction: durable (one `fdatasync`) when the block has ended, gone when it raises.

        The block only collects; nothing is sent before its end. So a single statement commits by itself,
        which saves the time of BEGIN and COMMIT, and no transaction stays open while the block computes.
        """
        collected = Transaction()
        yield collected
        if collected.statements:
            with errors_naming(self.path):
                if self.fence is not None:
                    self.fence.check()
                self._write(collected.statements)
                if self.fence is not None:
                    self.fence.check()

    def query(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """Rows of a SELECT, from the writing thread."""
        with errors_naming(self.path):
            return self._execute(self._connection, sql, parameters).fetchall()

    def reader(self) -> Database:
        """A cursor of its own on the same file, for another thread. It sees what is committed.

        The file's `close` ends it.
        """
        with errors_naming(self.path):
            return Database(self.path, self._connection.cursor())

    @property
    def wal_bytes(self) -> int:
        """Size of the write-ahead log."""
        return _size(Path(f"{self.path}.wal"))

    @property
    def file_bytes(self) -> int:
        """Size of the file without its write-ahead log."""
        return _size(self.path)

    def fold_wal(self) -> None:
        """Fold the write-ahead log into the file (three `fdatasync`s)."""
        with errors_naming(self.path):
            self._connection.execute("CHECKPOINT")

    def close(self) -> None:
        """Release the file and end its readers. Nothing depends on it: what was committed is safe without."""
        self._connection.close()

    def _write(self, statements: Sequence[tuple[str, Sequence[object]]]) -> None:
        only_inserts = all(sql.startswith("INSERT") for sql, _ in statements)
        connection = self._inserts_only() if only_inserts else self._connection
        if len(statements) == 1:
            self._execute(connection, *statements[0])
            return
        self._execute(connection, "BEGIN TRANSACTION")
        try:
            for sql, parameters in statements:
                self._execute(connection, sql, parameters)
            self._execute(connection, "COMMIT")
        except BaseException:
            with suppress(duckdb.Error):  # a failed COMMIT has rolled back already
                self._execute(connection, "ROLLBACK")
            raise

    def _inserts_only(self) -> duckdb.DuckDBPyConnection:
        """A connection without the optimizer: it finds nothing in an INSERT and takes a fifth of its time."""
        if self._inserting is None:
            self._inserting = self._connection.cursor()
            self._inserting.execute("PRAGMA disable_optimizer")
        return self._inserting

    def _execute(
        self, connection: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[object] = ()
    ) -> duckdb.DuckDBPyConnection:
        statement = self._parsed.get(sql)
        if statement is None:  # parsing, too, takes a fifth of a small write
            statement = self._parsed[sql] = connection.extract_statements(sql)[0]
        return connection.execute(statement, parameters)


def to_stored(moment: datetime) -> datetime:
    """A time as it is stored: UTC without a zone. A naive time is taken as UTC."""
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def from_stored(moment: datetime) -> datetime:
    """A stored time as an aware UTC datetime."""
    return moment.replace(tzinfo=UTC)


def _connect(path: Path, memory_limit_mib: int) -> duckdb.DuckDBPyConnection:
    if path.exists() and not _is_duckdb(path):
        raise FileCorruptError(str(path), "is no DuckDB database; restore it from a backup or move it away")
    has_odd_wal = _has_odd_wal(path)
    connection = duckdb.connect(
        str(path),
        config={
            "default_block_size": str(BLOCK_SIZE),
            "threads": 1,
            "async_threads": 1,
            "memory_limit": f"{memory_limit_mib}MiB",
            "checkpoint_threshold": WAL_LIMIT,
            "temp_directory": "",
            "autoload_known_extensions": False,
            "autoinstall_known_extensions": False,
        },
    )
    if has_odd_wal:
        row = connection.execute("SELECT wal_size FROM pragma_database_size()").fetchone()
        if row == ("0 bytes",):
            connection.close()
            raise FileCorruptError(
                str(path), f"its log {path}.wal is damaged; restore both from a backup or move them away"
            )
    return connection


def _is_duckdb(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(12)[8:] == b"DUCK"  # behind a checksum


def _has_odd_wal(path: Path) -> bool:
    """Does the log begin like nothing that DuckDB writes?

    DuckDB takes such a log for the torn first write of one, ignores it and overwrites it with the next
    commit: acknowledged steps would go without a word. A really torn one is short, or begins with zeros.
    """
    try:
        with Path(f"{path}.wal").open("rb") as log:
            start = log.read(64)
    except FileNotFoundError:
        return False
    return len(start) == 64 and any(start) and not start.startswith(b"d\x00be\x00")


def _create(path: Path, steps: tuple[Migration, ...], memory_limit_mib: int) -> None:
    _make_folder(path.parent)
    _remove_leftovers(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        connection = _connect(unfinished, memory_limit_mib)
        try:
            migrate(connection, str(path), steps)
        finally:
            connection.close()
        with suppress(FileExistsError):  # a file that another process made meanwhile stays
            os.link(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
        Path(f"{unfinished}.wal").unlink(missing_ok=True)
    _sync_folder(path.parent)


def _make_folder(folder: Path) -> None:
    """Create a folder and its parents, each durably in the one above it."""
    if folder.exists():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_leftovers(path: Path) -> None:
    """Remove what processes left that died while they created the file."""
    prefix = f".{path.name}."
    for entry in os.scandir(path.parent):
        pid = entry.name.removeprefix(prefix).removesuffix(".wal")
        if not (entry.name.startswith(prefix) and pid.isdecimal()):
            continue
        is_of_an_earlier_process = int(pid) == os.getpid()  # a number is given again one day
        if is_of_an_earlier_process or not is_running(int(pid)):
            Path(entry.path).unlink(missing_ok=True)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
