"""Numbered migrations and the record of what a file has had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from perdure.storage import database as database_module
from perdure.storage.database import Database
from perdure.storage.errors import FileCorruptError, FileTooNewError
from perdure.storage.schema import Migration, migrate, migrations

FAMILIES = ("conversation", "directory")


def a_migration(version: int, sql: str) -> Migration:
    return Migration(version=version, name=f"{version:04d}_step.sql", sql=sql)


FIRST = a_migration(1, "CREATE TABLE notes (text VARCHAR NOT NULL); INSERT INTO notes VALUES ('kept')")
SECOND = a_migration(2, "ALTER TABLE notes ADD COLUMN tokens INTEGER")
THIRD = a_migration(3, "CREATE INDEX by_text ON notes (text); DROP INDEX by_text")
BROKEN = a_migration(2, "ALTER TABLE notes ADD COLUMN tokens INTEGER; INSERT INTO missing VALUES (1)")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(tmp_path / "x.duckdb")) as opened:
        yield opened


def applied(connection: duckdb.DuckDBPyConnection) -> list[tuple[int, str]]:
    return connection.execute("SELECT version, name FROM schema_migrations ORDER BY version").fetchall()


def columns(connection: duckdb.DuckDBPyConnection) -> list[tuple[str]]:
    return connection.execute(
        "SELECT column_name FROM duckdb_columns() WHERE table_name = 'notes' ORDER BY column_index"
    ).fetchall()


def test_pending_migrations_are_applied_in_order_and_once(connection: duckdb.DuckDBPyConnection) -> None:
    migrate(connection, "x", (FIRST,))
    migrate(connection, "x", (FIRST, SECOND, THIRD))
    migrate(connection, "x", (FIRST, SECOND, THIRD))
    assert applied(connection) == [(1, FIRST.name), (2, SECOND.name), (3, THIRD.name)]
    assert connection.execute("SELECT text, tokens FROM notes").fetchall() == [("kept", None)]


def test_a_migration_that_fails_leaves_nothing_of_itself(connection: duckdb.DuckDBPyConnection) -> None:
    migrate(connection, "x", (FIRST,))
    with pytest.raises(duckdb.CatalogException):
        migrate(connection, "x", (FIRST, BROKEN))
    assert applied(connection) == [(1, FIRST.name)]
    assert columns(connection) == [("text",)]
    migrate(connection, "x", (FIRST, SECOND))
    assert columns(connection) == [("text",), ("tokens",)]


def test_a_file_with_a_newer_schema_is_refused_and_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.duckdb"
    monkeypatch.setattr(database_module, "migrations", lambda family: (FIRST, SECOND))
    Database.open(path, "x").close()
    before = path.read_bytes()
    monkeypatch.setattr(database_module, "migrations", lambda family: (FIRST,))
    with pytest.raises(FileTooNewError, match=r"schema 2, this one knows 1\); upgrade Perdure") as raised:
        Database.open(path, "x")
    assert raised.value.path == str(path)
    assert path.read_bytes() == before
    monkeypatch.setattr(database_module, "migrations", lambda family: (FIRST, SECOND))
    Database.open(path, "x").close()


def test_a_file_of_another_family_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    Database.open(path, "directory").close()
    before = path.read_bytes()
    with pytest.raises(FileCorruptError, match="0001_directory") as raised:
        Database.open(path, "conversation")
    assert str(path) in str(raised.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("table", ["orders", "schema_migrations"])
def test_somebody_elses_database_is_refused_and_left_as_it_is(tmp_path: Path, table: str) -> None:
    path = tmp_path / "x.duckdb"
    with duckdb.connect(str(path)) as other:
        other.execute(f'CREATE TABLE "{table}" (amount INTEGER)')
    before = path.read_bytes()
    with pytest.raises(FileCorruptError, match=table):
        Database.open(path, "conversation")
    assert path.read_bytes() == before


@pytest.mark.parametrize("family", FAMILIES)
def test_migrations_are_numbered_without_a_gap_and_named_without_quotes(family: str) -> None:
    steps = migrations(family)
    assert [step.version for step in steps] == list(range(1, len(steps) + 1))
    for step in steps:
        assert step.name == f"{step.version:04d}_{step.name[5:]}"
        assert step.name.removesuffix(".sql").replace("_", "").isalnum()


@pytest.mark.parametrize("family", FAMILIES)
def test_no_table_has_an_index_or_a_key(family: str, tmp_path: Path) -> None:
    """Deleting and inserting a key in one transaction, and replaying an index, have failed in DuckDB."""
    database = Database.open(tmp_path / "x.duckdb", family)
    assert database.query("SELECT index_name FROM duckdb_indexes()") == []
    kinds = database.query("SELECT DISTINCT constraint_type FROM duckdb_constraints()")
    assert kinds == [("NOT NULL",)]
    database.close()


def test_no_schema_change_stays_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.duckdb"
    database = Database.open(path, "conversation")
    assert database.wal_bytes == 0
    database.close()
    steps = migrations("conversation")
    more = a_migration(len(steps) + 1, "ALTER TABLE unanswered_turns ADD COLUMN cost DOUBLE")
    monkeypatch.setattr(database_module, "migrations", lambda family: (*steps, more))
    database = Database.open(path, "conversation")
    assert database.wal_bytes == 0
    database.close()
