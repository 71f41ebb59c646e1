"""Pending replies: every call of a handle, waited for or awaited, by one mechanism."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from ...storage.errors import CallTimeoutError

Owner = TypeVar("Owner", bound="Submitter")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
ResultOut = TypeVar("ResultOut", covariant=True)


CANCEL_GRACE_S = 0.5
"""A call that is under way raises at its own time limit; one that waits behind others is given up this much later."""


class PendingReply(Generic[Result]):
    """The reply of a call under way: `await` it, or take its `result`."""

    def __init__(self, call: str, future: Future[Result]) -> None:
        self._call = call
        self._future = future

    def result(self, timeout_s: float | None = None) -> Result:
        """The reply; raises what the call raised.

        Raises:
            CallTimeoutError: It is not there in time. The call goes on; its result may be asked for again.
        """
        try:
            return self._future.result(timeout_s)
        except FutureTimeoutError as error:
            if self._future.done():
                raise  # the call's own error
            raise CallTimeoutError(self._call, timeout_s or 0.0) from error

    def done(self) -> bool:
        """Is the reply, or the error, there?"""
        return self._future.done()

    def __await__(self) -> Generator[object, None, Result]:
        return asyncio.wrap_future(self._future).__await__()


class Submitter(Protocol):
    """A handle: it runs the bodies of its calls, `here` on the caller's thread where nothing is before them."""

    def _submit(self, body: Callable[[], Result], *, ordered: bool, here: bool) -> Future[Result]: ...


class BoundCall(Generic[Arguments, ResultOut]):
    """A handle's call: called, it waits for the reply; `pending` gives the pending reply instead."""

    def __init__(
        self,
        name: str,
        submit: Callable[[Callable[[], ResultOut], bool], Future[ResultOut]],
        body: Callable[Arguments, ResultOut],
    ) -> None:
        self._name = name
        self._submit = submit
        self._body = body

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> ResultOut:
        """The reply."""
        future = self._submit(lambda: self._body(*args, **kwargs), True)
        timeout_s = kwargs.get("timeout_s")
        if not isinstance(timeout_s, int | float):
            return future.result()
        try:
            return future.result(timeout_s + CANCEL_GRACE_S)
        except FutureTimeoutError as error:
            if future.done():
                raise  # the call's own error
            future.cancel()  # still behind others: it will not run
            turn_id = kwargs.get("turn_id")
            raise CallTimeoutError(self._name, timeout_s, turn_id if isinstance(turn_id, str) else None) from error

    def pending(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> PendingReply[ResultOut]:
        """Start the call; its reply can be awaited, or taken with `.result(timeout_s)`."""
        return PendingReply(self._name, self._submit(lambda: self._body(*args, **kwargs), False))


class Call(Generic[Owner, Arguments, Result]):
    """Makes a call of a method whose body waits: see `ordered_call` and `unordered_call`."""

    def __init__(self, body: Callable[Concatenate[Owner, Arguments], Result], *, ordered: bool) -> None:
        self._body = body
        self._ordered = ordered
        self.__doc__ = body.__doc__
        self.__name__ = body.__name__
        self.__wrapped__ = body

    @overload
    def __get__(self, handle: None, owner: type[Owner]) -> Call[Owner, Arguments, Result]: ...
    @overload
    def __get__(self, handle: Owner, owner: type[Owner]) -> BoundCall[Arguments, Result]: ...
    def __get__(
        self, handle: Owner | None, owner: type[Owner]
    ) -> Call[Owner, Arguments, Result] | BoundCall[Arguments, Result]:
        if handle is None:
            return self
        bound_to = handle

        def submit(body: Callable[[], Result], here: bool) -> Future[Result]:
            return bound_to._submit(body, ordered=self._ordered, here=here)

        call: BoundCall[Arguments, Result] = BoundCall(self.__name__, submit, partial(self._body, bound_to))
        call.__doc__ = self.__doc__
        return call


def ordered_call(
    body: Callable[Concatenate[Owner, Arguments], Result],
) -> Call[Owner, Arguments, Result]:
    """A call that starts when the handle's earlier ones have ended: one is in flight at a time."""
    return Call(body, ordered=True)


def unordered_call(
    body: Callable[Concatenate[Owner, Arguments], Result],
) -> Call[Owner, Arguments, Result]:
    """A call that starts at once, beside whatever is under way."""
    return Call(body, ordered=False)
