"""The schema of a database file: numbered migrations, each applied together with its record."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

import duckdb

from .errors import FileCorruptError, FileTooNewError
from .fault_points import fault_point


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One numbered `.sql` file. Released ones are never edited."""

    version: int
    name: str
    sql: str


def migrations(family: str) -> tuple[Migration, ...]:
    """The migrations of a family of files (`conversation`, `directory`, `memory`), oldest first."""
    folder = resources.files(__package__) / "migrations" / family
    found = []
    for entry in folder.iterdir():
        if entry.name.endswith(".sql"):
            number, _, _ = entry.name.partition("_")
            found.append(Migration(version=int(number), name=entry.name, sql=entry.read_text(encoding="utf-8")))
    return tuple(sorted(found, key=lambda migration: migration.version))


def migrate(connection: duckdb.DuckDBPyConnection, path: str, steps: tuple[Migration, ...]) -> None:
    """Bring an open file to the newest version. A crash in between leaves it at a version that opens again.

    Raises:
        FileTooNewError: The file knows a migration that this code does not.
        FileCorruptError: It is a database of another kind.
    """
    applied = _applied(connection, path)
    for known, (version, name) in zip(steps, applied, strict=False):
        if known.name != name:
            raise FileCorruptError(path, f"is of another kind: its schema {version} is {name}; move it away")
    if len(applied) > len(steps):
        raise FileTooNewError(
            path,
            f"written by a newer version of Perdure (schema {applied[-1][0]}, this one knows {len(steps)});"
            " upgrade Perdure",
        )
    for count, step in enumerate(steps[len(applied) :], start=len(applied) + 1):
        connection.execute("BEGIN TRANSACTION")
        try:
            connection.execute(step.sql)
            connection.execute(_record(steps[:count]))
            fault_point("migration.before_commit")
            connection.execute("COMMIT")
        except duckdb.Error:
            connection.execute("ROLLBACK")
            raise
        fault_point("migration.committed")
    if len(applied) < len(steps):
        # DDL in a write-ahead log is what DuckDB has failed to replay after crashes; keep none there.
        connection.execute("CHECKPOINT")


def _applied(connection: duckdb.DuckDBPyConnection, path: str) -> list[tuple[int, str]]:
    """Version and name of the migrations that a file has had, oldest first."""
    try:
        return connection.execute("SELECT version, name FROM schema_migrations ORDER BY version").fetchall()
    except (duckdb.CatalogException, duckdb.BinderException) as error:
        found = connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY table_name").fetchall()
        if found:
            names = ", ".join(name for (name,) in found)
            raise FileCorruptError(path, f"is of another kind (it holds {names}); move it away") from error
        return []


def _record(applied: tuple[Migration, ...]) -> str:
    """What was applied is kept as a view: a table, however small, takes a block of every file."""
    rows = ", ".join(f"({step.version}, '{step.name}')" for step in applied)
    kept = f"SELECT * FROM (VALUES {rows}) AS kept (version, name)"  # noqa: S608 - the names of our own files
    return f"CREATE OR REPLACE VIEW schema_migrations AS {kept}"
