"""Who may hold a shared lock together."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from perdure.storage.shared_lock import SharedLock


def test_sharers_meet_and_whoever_is_alone_is_alone():
    lock, counting = SharedLock(), threading.Lock()
    sharing = alone = 0
    together: list[int] = []
    meeting = threading.Barrier(2, timeout=10)

    def share(number: int) -> None:
        nonlocal sharing
        with lock.shared():
            with counting:
                sharing += 1
                assert alone == 0
            if number < 2:
                meeting.wait()  # passes only if both are in
            time.sleep(0.0005)
            with counting:
                together.append(sharing)
                sharing -= 1

    def take(_: int) -> None:
        nonlocal alone
        with lock.alone():
            alone += 1
            assert (alone, sharing) == (1, 0)
            alone -= 1

    with ThreadPoolExecutor(8) as pool:
        ran = [pool.submit(share, number) for number in range(2)]
        ran += [pool.submit(take if number % 5 == 0 else share, number) for number in range(2, 300)]
        for one in ran:
            one.result(20)
    assert max(together) >= 2


def test_a_failure_inside_leaves_the_lock_free():
    lock = SharedLock()
    for held in (lock.shared, lock.alone):
        try:
            with held():
                raise KeyError
        except KeyError:
            pass
    with lock.alone():
        pass
    with lock.shared(), lock.shared():
        pass
