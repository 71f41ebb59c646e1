"""Opening a file, its transactions, and errors that name it."""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import duckdb
import pytest

from perdure.storage import database as database_module
from perdure.storage.conversation_store import ConversationStore
from perdure.storage.database import Database, from_stored, to_stored
from perdure.storage.errors import (
    DataDirectoryError,
    DiskFullError,
    FileCorruptError,
    FileTooNewError,
    StorageError,
)
from perdure.storage.schema import Migration
from tests.fixtures.conversation_file import IDENTITY, a_message, difference, open_store, open_turn, stored_tables, view

ROOT = Path(__file__).parents[2]


def in_child(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own; `arguments` are in `sys.argv`."""
    program = "import os, signal, sys\nfrom pathlib import Path\n" + textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "c.duckdb"


@pytest.fixture
def stored(path: Path) -> Path:
    """A closed file with twenty messages."""
    store = open_store(path)
    store.append_messages(messages=[a_message(f"m{place}", "x" * 500) for place in range(20)])
    store.close()
    return path


@pytest.fixture
def logged(path: Path) -> Path:
    """A file of a killed process: ten messages, each in a commit of its own, all still in the log."""
    done = in_child(
        """
        from tests.fixtures.conversation_file import a_message, open_store
        store = open_store(Path(sys.argv[1]))
        for place in range(10):
            store.append_messages(messages=[a_message(f"m{place}", "x" * 500)])
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        path,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert wal(path).stat().st_size > 5_000
    return path


def wal(path: Path) -> Path:
    return Path(f"{path}.wal")


def count(path: Path) -> int:
    store = open_store(path)
    try:
        return store.message_count()
    finally:
        store.close()


# --- opening -------------------------------------------------------------------------------------------------


def test_a_new_file_appears_whole_in_folders_that_are_made_for_it(tmp_path: Path) -> None:
    path = tmp_path / "conversations" / "assistant-1" / "ab" / "abc.duckdb"
    store = open_store(path)
    assert [entry.name for entry in path.parent.iterdir()] == ["abc.duckdb", "abc.duckdb.wal"]
    store.close()
    assert [entry.name for entry in path.parent.iterdir()] == ["abc.duckdb"]
    open_store(path).close()


def test_what_a_killed_creation_left_is_removed_and_a_living_ones_files_stay(path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for pid in (dead.pid, os.getpid(), os.getppid()):
        path.with_name(f".c.duckdb.{pid}").write_bytes(b"half")
        path.with_name(f".c.duckdb.{pid}.wal").write_bytes(b"half")
    path.with_name(".c.duckdb.swp").write_bytes(b"an editor's")
    path.with_name(f".cc.duckdb.{dead.pid}").write_bytes(b"another file's")
    open_store(path).close()
    assert {entry.name for entry in path.parent.iterdir()} == {
        "c.duckdb",
        ".c.duckdb.swp",
        f".cc.duckdb.{dead.pid}",
        f".c.duckdb.{os.getppid()}",
        f".c.duckdb.{os.getppid()}.wal",
    }


def test_a_file_that_appears_while_it_is_created_is_kept(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "late.duckdb"
    link = os.link

    def overtaken(source: Path, target: Path) -> None:
        stored.rename(target)
        link(source, target)

    monkeypatch.setattr(os, "link", overtaken)
    assert count(path) == 20


def test_a_second_process_is_refused_with_file_and_pid(path: Path) -> None:
    store = open_store(path)
    done = in_child(
        """
        from perdure.storage.errors import FileInUseError
        from tests.fixtures.conversation_file import open_store
        try:
            open_store(Path(sys.argv[1]))
        except FileInUseError as error:
            print(error.retryable, error)
        """,
        path,
    )
    assert done.stdout.startswith(f"True {path}: held by "), done
    assert f"PID {os.getpid()}" in done.stdout
    store.append_messages(messages=[a_message("m1")])
    store.close()
    assert count(path) == 1


def test_a_file_is_free_after_its_process_was_killed_and_after_close_though_readers_are_left(
    logged: Path,
) -> None:
    store = open_store(logged)
    reader = store.reader()
    store.close()
    done = in_child(
        """
        from tests.fixtures.conversation_file import open_store
        print(open_store(Path(sys.argv[1])).message_count())
        """,
        logged,
    )
    assert done.stdout == "10\n", done
    with pytest.raises(StorageError, match="closed"):
        reader.messages.count()


# --- damaged files -------------------------------------------------------------------------------------------


def refused(path: Path, error: type[StorageError] = FileCorruptError) -> str:
    """Opening is refused with an error that names the file, and leaves it as it was."""
    before = {entry: entry.read_bytes() for entry in path.parent.iterdir() if entry.is_file()}
    with pytest.raises(error) as raised:
        open_store(path)
    assert type(raised.value) is error
    assert raised.value.path == str(path)
    assert str(path) in str(raised.value)
    assert {entry: entry.read_bytes() for entry in path.parent.iterdir() if entry.is_file()} == before
    return raised.value.problem


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"hello", b"hello\n" * 9_999, b"\0" * 90_000, random.Random(1).randbytes(90_000)],
    ids=["empty", "one byte", "short", "text", "zeros", "random"],
)
def test_what_is_no_database_is_corrupt(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    refused(path)


def test_another_systems_database_is_corrupt(path: Path) -> None:
    import sqlite3

    other = sqlite3.connect(path)
    other.execute("CREATE TABLE messages (content TEXT)")
    other.close()
    assert "no DuckDB database" in refused(path)


@pytest.mark.parametrize("share", [0.001, 0.04, 0.1, 0.5, 0.9, 0.9999])
def test_a_truncated_file_is_corrupt(stored: Path, share: float) -> None:
    whole = stored.read_bytes()
    stored.write_bytes(whole[: int(len(whole) * share)])
    refused(stored)


def test_damage_anywhere_is_corruption_or_does_no_harm(stored: Path) -> None:
    whole = stored.read_bytes()
    drawn = random.Random(3)
    outcomes = []
    for _ in range(40):
        start = drawn.randrange(len(whole))
        damaged = bytearray(whole)
        damaged[start : start + 300] = drawn.randbytes(len(damaged[start : start + 300]))
        stored.write_bytes(damaged)
        wal(stored).unlink(missing_ok=True)
        outcomes.append(contents(stored))
    unharmed = ["x" * 500] * 20
    assert all(outcome in ("corrupt", unharmed) for outcome in outcomes)
    assert "corrupt" in outcomes


def contents(path: Path) -> list[str] | str:
    """The contents of all messages, or that the file is corrupt."""
    try:
        store = open_store(path)
    except FileCorruptError as error:
        return "corrupt" if error.path == str(path) else str(error)
    try:
        return [message.content for message in store.page_before(None, 50)]
    except FileCorruptError as error:
        return "corrupt" if error.path == str(path) else str(error)
    finally:
        store.close()


def test_damage_that_shows_only_when_it_is_read_is_corruption_too(path: Path) -> None:
    store = open_store(path)
    drawn = random.Random(2)
    store.append_messages(messages=[a_message(f"m{place}", drawn.randbytes(1_500).hex()) for place in range(200)])
    store.tidy()
    ((block,),) = store.reader().database.query(
        "SELECT max(block_id) FROM pragma_storage_info('chat_messages') WHERE column_name = 'content'"
    )
    store.close()
    damaged = bytearray(path.read_bytes())
    start = 3 * 4_096 + int(str(block)) * database_module.BLOCK_SIZE
    damaged[start + 100 : start + 8_000] = drawn.randbytes(7_900)
    path.write_bytes(damaged)
    store = open_store(path)
    with pytest.raises(FileCorruptError, match=re.escape(str(path))):
        store.page_before(None, 200)
    store.close()


def test_a_truncated_log_gives_the_whole_steps_before_the_cut_as_after_a_crash(logged: Path) -> None:
    file, log = logged.read_bytes(), wal(logged).read_bytes()
    counts = []
    for share in (0, 0.001, 0.5, 0.95, 0.9999, 1):
        logged.write_bytes(file)
        wal(logged).write_bytes(log[: int(len(log) * share)])
        counts.append(count(logged))
    assert counts == sorted(counts)
    assert (counts[0], counts[1], counts[-2], counts[-1]) == (0, 0, 9, 10)


def test_a_log_of_garbage_is_corrupt_and_stays(logged: Path) -> None:
    wal(logged).write_bytes(random.Random(4).randbytes(6_000))
    assert f"{logged}.wal" in refused(logged)


@pytest.mark.parametrize("entry", [2, 5, 9])
def test_a_log_with_a_damaged_entry_is_corrupt_and_stays(logged: Path, entry: int) -> None:
    damaged = bytearray(wal(logged).read_bytes())
    place = -1
    for _ in range(entry + 1):  # a damaged length would look like a torn end instead
        place = damaged.index(b"x" * 500, place + 1)
    damaged[place + 250] ^= 0x55
    wal(logged).write_bytes(damaged)
    refused(logged)


def test_the_log_of_another_file_is_refused(stored: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.duckdb"
    done = in_child(
        """
        from tests.fixtures.conversation_file import a_message, open_store
        store = open_store(Path(sys.argv[1]))
        store.append_messages(messages=[a_message("m1")])
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        other,
    )
    assert done.returncode == -signal.SIGKILL
    wal(stored).write_bytes(wal(other).read_bytes())
    refused(stored)


@pytest.mark.parametrize("content", [b"\0" * 30, b"d\0be\0\2", b"\0" * 5_000], ids=["short", "torn", "zeros"])
def test_a_torn_first_write_of_a_log_is_none(stored: Path, content: bytes) -> None:
    wal(stored).write_bytes(content)
    assert count(stored) == 20


def in_version(content: bytes, version: int) -> bytes:
    """A database file with another storage version, its checksum made right."""
    factor, mask = 0xBF58476D1CE4E5B9, 2**64 - 1
    checksum = int.from_bytes(content[:8], "little")
    old = int.from_bytes(content[8:16], "little")
    new = old & 0xFFFFFFFF | version << 32
    checksum ^= (old * factor) & mask ^ (new * factor) & mask
    return checksum.to_bytes(8, "little") + new.to_bytes(8, "little") + content[16:]


def test_a_file_of_a_newer_duckdb_is_too_new(stored: Path) -> None:
    stored.write_bytes(in_version(stored.read_bytes(), 5_000))
    assert "newer DuckDB" in refused(stored, FileTooNewError)


def test_a_file_of_an_ancient_duckdb_is_not_called_too_new(stored: Path) -> None:
    stored.write_bytes(in_version(stored.read_bytes(), 1))
    refused(stored, StorageError)


# --- places that cannot be used ------------------------------------------------------------------------------


def test_a_path_below_a_regular_file_is_no_data_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    with pytest.raises(DataDirectoryError, match="Not a directory"):
        open_store(tmp_path / "file" / "folder" / "c.duckdb")


def test_a_folder_in_the_files_place_is_named(path: Path) -> None:
    path.mkdir()
    with pytest.raises(DataDirectoryError, match=re.escape(str(path))):
        open_store(path)


def test_a_name_that_the_file_system_refuses_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataDirectoryError, match="too long"):
        open_store(tmp_path / ("x" * 300))


def test_a_folder_where_nothing_may_be_written_is_named() -> None:
    path = Path("/proc/self/c.duckdb")  # refuses root as well
    if not path.parent.is_dir():
        pytest.skip("no /proc here")
    with pytest.raises(DataDirectoryError, match=re.escape(str(path))):
        open_store(path)


def test_permission_denied_is_named(stored: Path) -> None:
    stored.parent.chmod(0)
    done = in_child(
        """
        from perdure.storage.errors import DataDirectoryError
        from perdure.storage.schema import migrations
        from tests.fixtures.conversation_file import open_store
        migrations("conversation")  # whoever we become may not read the modules that are still to be loaded
        if os.geteuid() == 0:
            os.setgroups([]); os.setgid(65534); os.setuid(65534)
        for name in ("c.duckdb", "new.duckdb"):
            path = Path(sys.argv[1]).with_name(name)
            try:
                open_store(path)
            except DataDirectoryError as error:
                print(name, "permission" in str(error), str(path) in str(error))
        """,
        stored,
    )
    stored.parent.chmod(0o700)
    assert done.stdout == "c.duckdb True True\nnew.duckdb True True\n", done
    assert count(stored) == 20


# --- full disks ----------------------------------------------------------------------------------------------


@contextmanager
def no_file_longer_than(limit: int) -> Iterator[None]:
    """As on a full disk, the system refuses to make a file longer."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def append_until_refused(store: ConversationStore, content: Callable[[], str]) -> list[str]:
    """Append until the disk is full; the ids that were acknowledged."""
    acknowledged: list[str] = []
    while len(acknowledged) < 200:
        try:
            store.append_messages(messages=[a_message(f"m{len(acknowledged)}", content())])
        except DiskFullError:
            return acknowledged
        acknowledged.append(f"m{len(acknowledged)}")
    raise AssertionError("the disk did not fill up")


def test_a_commit_on_a_full_disk_fails_with_nothing_stored_and_works_again_with_room(path: Path) -> None:
    store = open_store(path)
    open_turn(store, "t1")
    memory, file = view(store), stored_tables(store)
    with no_file_longer_than(store.wal_bytes + 10_000):
        for _ in range(3):
            with pytest.raises(DiskFullError, match=re.escape(str(path))) as raised:
                store.append_messages(messages=[a_message("large", "x" * 50_000)])
            assert raised.value.retryable
        assert difference(view(store), memory) == []
        assert stored_tables(store) == file
        store.append_messages(messages=[a_message("small")])
    store.append_messages(messages=[a_message("large", "x" * 50_000)])
    expected = view(store)
    store.close()
    again = open_store(path)
    assert difference(view(again), expected) == []
    assert again.message_count() == 3
    again.close()


def test_tidying_on_a_full_disk_loses_nothing_and_the_file_works_once_it_is_opened_again(path: Path) -> None:
    store = open_store(path)
    drawn = random.Random(5)
    store.append_messages(messages=[a_message("m1", drawn.randbytes(60_000).hex())])
    reader = store.reader()
    expected = view(store)
    with no_file_longer_than(path.stat().st_size + 5_000):
        with pytest.raises(DiskFullError, match=re.escape(str(path))):
            store.tidy()
        with pytest.raises(StorageError):  # DuckDB has given the file up
            store.append_messages(messages=[a_message("m2")])
        with pytest.raises(StorageError):
            reader.messages.count()
        store.close()
        again = open_store(path)  # also while the disk is full, and though a reader is left
        assert difference(view(again), expected) == []
        again.close()
    again = open_store(path)
    again.append_messages(messages=[a_message("m2")])
    again.tidy()
    assert again.reader().messages.count() == 2
    again.close()


def test_a_log_that_duckdb_folds_by_itself_on_a_full_disk_keeps_what_was_acknowledged(path: Path) -> None:
    drawn = random.Random(6)
    store = open_store(path)
    limit = 1_000_000
    with no_file_longer_than(path.stat().st_size + 200_000), pytest.MonkeyPatch.context() as patch:
        patch.setattr(database_module, "WAL_LIMIT", f"{limit}B")
        store.close()
        store = open_store(path)
        acknowledged = append_until_refused(store, lambda: drawn.randbytes(10_000).hex())
        store.close()
    again = open_store(path)
    found = [message.message_id for message in again.page_before(None, 200)]
    assert found[: len(acknowledged)] == acknowledged
    assert len(found) - len(acknowledged) in (0, 1)
    assert len(acknowledged) > 3
    again.close()


def test_a_file_that_cannot_be_created_on_a_full_disk_leaves_nothing_behind(path: Path) -> None:
    for limit in (1_000, 13_000, 20_000):
        with no_file_longer_than(limit), pytest.raises(DiskFullError, match=re.escape(str(path))):
            open_store(path)
        assert list(path.parent.iterdir()) == []
    open_store(path).close()


def test_a_small_disk_that_is_full_behaves_so(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a file system of a few kilobytes cannot be mounted here")
    try:
        store = open_store(disk / "c.duckdb")
        acknowledged = len(append_until_refused(store, lambda: "x" * 10_000))
        assert store.message_count() == acknowledged
        with pytest.raises(DiskFullError):
            store.tidy()
        store.close()
        assert count(disk / "c.duckdb") == acknowledged
        with pytest.raises(DiskFullError, match=r"new\.duckdb"):
            open_store(disk / "new.duckdb")
        assert sorted(entry.name for entry in disk.iterdir()) == ["c.duckdb", "c.duckdb.wal"]
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


# --- mistakes, limits, transactions --------------------------------------------------------------------------


def execute_all(database: Database, *statements: tuple[str, tuple[object, ...]]) -> None:
    with database.transaction() as transaction:
        for sql, parameters in statements:
            transaction.execute(sql, parameters)


@pytest.mark.parametrize(
    ("sql", "parameters", "error"),
    [
        ("SELEC 1", (), duckdb.ParserException),
        ("INSERT INTO missing VALUES (1)", (), duckdb.CatalogException),
        ("INSERT INTO unanswered_turns (turn_id) VALUES (?)", ("t1",), duckdb.ConstraintException),
        ("INSERT INTO unanswered_turns (no_column) VALUES (?)", ("t1",), duckdb.BinderException),
        ("INSERT INTO unanswered_turns (turn_id) VALUES (?)", (), duckdb.InvalidInputException),
        ("SELECT CAST(? AS INTEGER)", ("no space left on device, corrupt",), duckdb.ConversionException),
    ],
)
def test_a_mistake_in_our_own_sql_stays_one_and_changes_nothing(
    path: Path, sql: str, parameters: tuple[object, ...], error: type[duckdb.Error]
) -> None:
    store = open_store(path)
    database = store._database
    file = stored_tables(store)
    for _ in range(2):
        with pytest.raises(error):
            execute_all(database, ("DELETE FROM conversation", ()), (sql, parameters))
        with pytest.raises(error):
            database.query(sql, parameters)
    assert stored_tables(store) == file
    store.append_messages(messages=[a_message("m1")])
    store.close()


def test_a_mistake_in_a_migration_is_not_called_corruption(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Migration(version=1, name="0001_x.sql", sql="CREATE TABLE x (a INTEGER); CREATE x")
    monkeypatch.setattr(database_module, "migrations", lambda family: (step,))
    with pytest.raises(duckdb.ParserException):
        Database.open(path, "x")
    assert list(path.parent.iterdir()) == []


def test_an_exception_in_a_transaction_sends_nothing(path: Path) -> None:
    store = open_store(path)
    file = stored_tables(store)

    def interrupted() -> None:
        with store._database.transaction() as transaction:
            transaction.execute("DELETE FROM conversation")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert stored_tables(store) == file
    with store._database.transaction():
        pass
    store.close()


def test_phrases_in_the_path_do_not_mislead_the_error(tmp_path: Path) -> None:
    path = tmp_path / "no space left on device, permission denied, could not set lock" / "c.duckdb"
    open_store(path).close()
    path.write_bytes(path.read_bytes()[:20_000])
    refused(path)


def test_a_step_beyond_the_memory_limit_fails_alone(path: Path) -> None:
    store = ConversationStore.open(path, IDENTITY, datetime(2024, 1, 1, tzinfo=UTC), 16)
    store.append_messages(messages=[a_message("m1")])
    memory = view(store)
    with pytest.raises(StorageError, match="file_memory_limit_mib"):
        store.append_messages(messages=[a_message(f"b{place}", "x" * 400_000) for place in range(60)])
    assert difference(view(store), memory) == []
    store.append_messages(messages=[a_message("m2")])
    store.tidy()
    store.close()
    assert count(path) == 2


def test_a_step_is_one_fdatasync(path: Path) -> None:
    """Counted by the system, where strace is there."""
    from shutil import which

    if which("strace") is None:
        pytest.skip("no strace here")
    code = textwrap.dedent(
        """
        import os, sys
        from pathlib import Path
        from tests.fixtures.conversation_file import *
        store = open_store(Path(sys.argv[1]))
        store.append_messages(messages=[a_message("m0")])
        print("BEGIN", flush=True)
        open_turn(store, "t1")
        store.record_calls(turn_id=TurnId("t1"), text="", calls=(a_call("c1"),), usage=Usage(), at=BEGIN)
        store.record_results(
            turn_id=TurnId("t1"), results=(a_result("c1", "y" * 30_000),), at=BEGIN,
            working_state=WorkingState(notes="n"),
        )
        finish_turn(store, "t1")
        print("END", flush=True)
        os._exit(0)
        """
    )
    trace = path.with_name("trace")
    done = subprocess.run(
        ["strace", "-f", "-e", "trace=fsync,fdatasync,write", "-o", trace, sys.executable, "-c", code, path],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "BEGIN" not in done.stdout:
        pytest.skip(f"strace does not work here: {done.stderr[:200]}")
    lines = trace.read_text().splitlines()
    begin, end = (next(n for n, line in enumerate(lines) if f'"{mark}' in line) for mark in ("BEGIN", "END"))
    assert len([line for line in lines[begin:end] if "sync" in line]) == 4


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=9)), timezone(timedelta(hours=-8))])
def test_times_are_stored_in_utc_and_come_back_aware(zone: timezone) -> None:
    moment = datetime(2024, 3, 10, 2, 30, 0, 1, tzinfo=zone)
    assert from_stored(to_stored(moment)) == moment
    assert from_stored(to_stored(moment)).utcoffset() == timedelta(0)
    assert to_stored(datetime(2024, 1, 1)) == datetime(2024, 1, 1)  # noqa: DTZ001 - naive counts as UTC
