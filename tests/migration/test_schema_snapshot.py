"""All migrations together give the schema that is written down here."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.storage.database import Database

SNAPSHOTS = Path(__file__).parent


def schema(database: Database) -> str:
    """Every column of every table, a line each, in the order of the file."""
    tables: dict[str, list[str]] = {}
    for table, column, kind, nullable, default in database.query(
        "SELECT table_name, column_name, data_type, is_nullable, column_default FROM duckdb_columns()"
        " WHERE NOT internal ORDER BY table_name, column_index"
    ):
        line = f"    {column} {kind}"
        line += "" if nullable else " NOT NULL"
        line += f" DEFAULT {default}" if default is not None else ""
        tables.setdefault(str(table), []).append(line)
    return "\n\n".join(f"{table} (\n" + ",\n".join(lines) + "\n)" for table, lines in tables.items()) + "\n"


@pytest.mark.parametrize("family", ["conversation", "directory", "memory"])
def test_all_migrations_together_give_the_schema_of_the_snapshot(family: str, tmp_path: Path) -> None:
    database = Database.open(tmp_path / "x.duckdb", family)
    found = schema(database)
    database.close()
    assert found == (SNAPSHOTS / f"{family}.schema").read_text(encoding="utf-8")
