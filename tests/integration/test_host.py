"""One runtime, many scripts: who starts it, who shares it, and that nothing stays behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from perdure.actors.host_address import HostAddress, find_host
from tests.fixtures.lean import without_index

SCRIPT = """
    import sys, time
    from pathlib import Path
    from perdure.actors import connect
    from perdure.actors.testing import Rule, Say, Script

    data_dir, who, turns, pause_s = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    started = time.monotonic()
    with connect(data_dir) as runtime:
        print("connected", round(time.monotonic() - started, 2), flush=True)
        agent = runtime.agent("a", model=Script((Rule(None, (Say("ok"),)),)))
        chat = agent.conversation("shared")
        for number in range(turns):
            chat.send(f"{who} {number}", turn_id=f"{who}-{number}")
            print("sent", number, flush=True)
            time.sleep(pause_s)
"""


def start(data_dir: Path, who: str, turns: int, pause_s: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(data_dir), who, str(turns), str(pause_s)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **without_index(),
            "RAY_gcs_rpc_server_reconnect_timeout_s": "5",
        },  # of 60, for a script whose host is gone
    )


def running_host(data_dir: Path) -> HostAddress:
    limit = time.monotonic() + 90
    while time.monotonic() < limit:
        host = find_host(data_dir / "run")
        if host is not None:
            return host
        time.sleep(0.1)
    raise AssertionError("no host came up")


def family(pid: int) -> list[int]:
    """The process and all below it."""
    found, queue = [], [pid]
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    while queue:
        one = queue.pop()
        found.append(one)
        queue += children.get(one, [])
    return found


def wait_until_gone(pids: list[int], timeout_s: float) -> list[int]:
    limit = time.monotonic() + timeout_s
    left = pids
    while left and time.monotonic() < limit:
        left = [pid for pid in left if _is_running(pid)]
        time.sleep(0.1)
    return left


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()


def test_two_scripts_at_once_share_a_runtime_whichever_ends_first_and_nothing_stays(tmp_path):
    data_dir = tmp_path / "data"
    first, second = start(data_dir, "first", 3, 0.1), start(data_dir, "second", 12, 0.5)
    host = running_host(data_dir)
    everything = family(host.pid)
    out, errors = first.communicate(timeout=200)
    assert (first.returncode, out.count("sent")) == (0, 3), errors
    everything += family(host.pid)
    out, errors = second.communicate(timeout=200)
    assert (second.returncode, out.count("sent")) == (0, 12), errors
    assert wait_until_gone(list(set(everything)), 30) == []
    assert find_host(data_dir / "run") is None


def test_a_script_that_is_killed_takes_nothing_along_and_the_runtime_ends_by_itself(tmp_path):
    data_dir = tmp_path / "data"
    script = start(data_dir, "killed", 50, 0.2)
    host = running_host(data_dir)
    assert script.stdout is not None
    while "sent 2" not in script.stdout.readline():
        pass
    everything = family(host.pid)
    script.send_signal(signal.SIGKILL)
    script.communicate()
    assert find_host(data_dir / "run") is not None  # it stays a while, for the next script
    assert wait_until_gone(everything, 30) == []
    again = start(data_dir, "killed", 4, 0.0)
    out, errors = again.communicate(timeout=200)
    assert (again.returncode, out.count("sent")) == (0, 4), errors


def test_a_host_that_is_killed_takes_its_ray_along_and_the_next_connect_starts_another(tmp_path):
    data_dir = tmp_path / "data"
    script = start(data_dir, "one", 100, 0.2)
    host = running_host(data_dir)
    assert script.stdout is not None
    while "sent 2" not in script.stdout.readline():
        pass
    everything = family(host.pid)
    os.kill(host.pid, signal.SIGKILL)
    _, errors = script.communicate(timeout=200)
    assert script.returncode != 0
    assert errors  # Ray ends the processes that were attached, and says so
    left = wait_until_gone(everything, 15)  # one that was just being started looks for its Ray first
    assert {command_line(pid) for pid in left} <= {"ray::DashboardAgent", "ray::RuntimeEnvAgent"}
    for pid in left:  # for a minute these two try to tell the dead GCS that the raylet is dead
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    again = start(data_dir, "one", 5, 0.0)
    out, errors = again.communicate(timeout=200)
    assert (again.returncode, out.count("sent")) == (0, 5), errors


def test_a_setting_other_than_the_running_runtimes_is_refused_by_name(runtime):
    from perdure.actors import connect
    from perdure.storage.errors import SettingsMismatchError

    with pytest.raises(SettingsMismatchError, match=r"turn\.max_tool_rounds"):
        connect(runtime.place.data_dir, settings={"turn": {"max_tool_rounds": 3}})
    with connect(runtime.place.data_dir) as same:
        assert same.place.settings.turn.resume_after_s == 2.0  # as the running one was started
