"""Every error Perdure raises on purpose. The type answers "may I retry?"; the fields carry the ids."""

from __future__ import annotations

from typing import ClassVar


class PerdureError(Exception):
    """Base of every error raised on purpose; `retryable`: may the same call succeed later?

    A subclass hands its constructor's arguments to `super().__init__`, in order: they rebuild the error on
    the other side of a process border.
    """

    retryable: ClassVar[bool] = False


class InvalidInputError(PerdureError, ValueError):
    """An argument cannot be used. Nothing was written."""

    def __init__(self, field: str, problem: str, remedy: str) -> None:
        super().__init__(field, problem, remedy)
        self.field = field
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}; {self.remedy}"


class SettingsError(InvalidInputError):
    """A setting of the environment, of `perdure.toml` or of `connect` cannot be used."""


# --- turns -------------------------------------------------------------------------------------------------


class TurnError(PerdureError):
    """Base of the errors about one turn."""

    turn_id: str


class TurnConflictError(TurnError):
    """A `turn_id` came back with another message: the caller is reusing ids. Nothing was written."""

    def __init__(self, turn_id: str) -> None:
        super().__init__(turn_id)
        self.turn_id = turn_id

    def __str__(self) -> str:
        return f"turn {self.turn_id!r} is already stored with another message; use a new turn_id"


class TurnInProgressError(TurnError):
    """A turn that a driver runs itself is open and was touched lately. Nothing was written."""

    retryable = True

    def __init__(self, turn_id: str, untouched_s: float, resume_after_s: float) -> None:
        super().__init__(turn_id, untouched_s, resume_after_s)
        self.turn_id = turn_id
        self.untouched_s = untouched_s
        self.resume_after_s = resume_after_s

    def __str__(self) -> str:
        return (
            f"turn {self.turn_id!r} is in progress, last touched {self.untouched_s:.1f} s ago; finish or abandon"
            f" it, or retry once it has been untouched for {self.resume_after_s:.0f} s"
        )


class TurnFailedError(TurnError):
    """The turn ended without a reply, for good; a repeat of its id raises this again."""

    def __init__(self, turn_id: str, reason: str) -> None:
        super().__init__(turn_id, reason)
        self.turn_id = turn_id
        self.reason = reason

    def __str__(self) -> str:
        return f"turn {self.turn_id!r} failed for good: {self.reason}; send the message under a new turn_id"


class TurnAbandonedError(TurnError):
    """The turn was given up (`turn.abandon()`, `chat.cancel()`, or another turn took it over)."""

    def __init__(self, turn_id: str, absorbed_by: str | None = None) -> None:
        super().__init__(turn_id, absorbed_by)
        self.turn_id = turn_id
        self.absorbed_by = absorbed_by

    def __str__(self) -> str:
        how = f"taken over by turn {self.absorbed_by!r}" if self.absorbed_by else "cancelled"
        return f"turn {self.turn_id!r} was {how}; send the message under a new turn_id"


class TurnNotFoundError(TurnError):
    """No turn of this conversation has that id."""

    def __init__(self, turn_id: str) -> None:
        super().__init__(turn_id)
        self.turn_id = turn_id

    def __str__(self) -> str:
        return f"this conversation has no turn {self.turn_id!r}; begin it first"


class TurnNotOpenError(TurnError):
    """A step came for a turn that has ended already with something else. Nothing was written."""

    def __init__(self, turn_id: str, state: str) -> None:
        super().__init__(turn_id, state)
        self.turn_id = turn_id
        self.state = state

    def __str__(self) -> str:
        return f"turn {self.turn_id!r} is {self.state} and takes no further steps; begin a new turn"


class CheckpointUnreadableError(TurnError):
    """A turn checkpoint holds something this version cannot read; what precedes it is still there."""

    def __init__(self, conversation_id: str, turn_id: str, step: int, problem: str, readable_steps: int) -> None:
        super().__init__(conversation_id, turn_id, step, problem, readable_steps)
        self.conversation_id = conversation_id
        self.turn_id = turn_id
        self.step = step
        self.problem = problem
        self.readable_steps = readable_steps

    def __str__(self) -> str:
        return (
            f"conversation {self.conversation_id!r}: the checkpoint of turn {self.turn_id!r} cannot be read at step"
            f" {self.step} ({self.problem}); {self.readable_steps} earlier steps are good. Use the version of"
            " Perdure that wrote it, or cancel the turn: the next one starts from the good steps"
        )


# --- conversations -----------------------------------------------------------------------------------------


class MessageConflictError(PerdureError):
    """A message id came back with other content. Nothing was written."""

    def __init__(self, message_id: str) -> None:
        super().__init__(message_id)
        self.message_id = message_id

    def __str__(self) -> str:
        return f"message {self.message_id!r} is already stored with other content; use a new id"


class ContactMismatchError(PerdureError):
    """A conversation was reopened with another contact than it was created with."""

    def __init__(self, conversation_id: str, stored: str | None, given: str) -> None:
        super().__init__(conversation_id, stored, given)
        self.conversation_id = conversation_id
        self.stored = stored
        self.given = given

    def __str__(self) -> str:
        has = f"belongs to contact {self.stored!r}" if self.stored else "was created without a contact"
        return (
            f"conversation {self.conversation_id!r} {has}, not {self.given!r}; open it without contact=, or use"
            " another conversation id"
        )


# --- memory ------------------------------------------------------------------------------------------------


class MemoryDisabledError(PerdureError):
    """The agent was opened with `memory=False`. What it remembered before is still stored."""

    def __init__(self, agent: str) -> None:
        super().__init__(agent)
        self.agent = agent

    def __str__(self) -> str:
        return f"agent {self.agent!r} has no memory; open it with memory=True"


class MemoryConflictError(PerdureError):
    """An id of a write or of a memory came back with other content. Nothing of it was written."""

    def __init__(self, field: str, taken: str) -> None:
        super().__init__(field, taken)
        self.field = field
        self.taken = taken

    def __str__(self) -> str:
        return f"{self.field} {self.taken!r} is already stored with other content; use a new id"


# --- models and tools --------------------------------------------------------------------------------------


class ModelError(PerdureError):
    """A model gave no usable answer. An open turn keeps what it had: repeating its `turn_id` continues it."""

    def __init__(self, model: str, reason: str, turn_id: str | None = None) -> None:
        super().__init__(model, reason, turn_id)
        self.model = model
        self.reason = reason
        self.turn_id = turn_id

    def during(self, turn_id: str) -> ModelError:
        """The same error, naming the turn that it left open."""
        return type(self)(self.model, self.reason, turn_id)

    def __str__(self) -> str:
        text = f"model {self.model!r}: {self.reason}"
        if self.turn_id is not None:
            when = "" if self.retryable else ", once the cause is put right,"
            text += f"; turn {self.turn_id!r} stays open, sending it again{when} with the same turn_id continues it"
        return text


class ModelUnavailableError(ModelError):
    """The model did not answer in time, refused the rate, or is down; later it may answer."""

    retryable = True


class ModelRequestError(ModelError):
    """The model will not take this request however often it comes: unknown model, bad key, bad request."""


class EmbeddedModelError(ModelError):
    """The files of an embedded model are missing, or others than expected. Nothing weaker takes its place."""


class ToolUnavailableError(PerdureError):
    """A tool has no code here: it lives in a script or notebook that is gone, or cannot be imported."""

    def __init__(self, tool: str, reason: str) -> None:
        super().__init__(tool, reason)
        self.tool = tool
        self.reason = reason

    def __str__(self) -> str:
        return f"tool {self.tool!r} is unavailable: {self.reason}"


# --- files and processes -----------------------------------------------------------------------------------


class StorageError(PerdureError):
    """Base of the errors about one file or folder of the data directory; the others go on working."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class FileCorruptError(StorageError):
    """A database file cannot be read. It is left as it is; restore it from a backup or move it away."""


class FileTooNewError(StorageError):
    """A database file was written by a newer version of Perdure. It is left as it is."""


class FileInUseError(StorageError):
    """Another process holds the file or the data directory."""

    retryable = True


class FileClosedError(StorageError):
    """This process has just let go of the file; the next call opens it anew. Nothing was written."""

    retryable = True


class FileMissingError(StorageError):
    """A conversation has been stored here and its file is gone. It is not made anew, empty."""


class FencedError(StorageError):
    """This process is no longer the one that holds the conversation; nothing it does is acknowledged."""

    retryable = True

    def __init__(self, path: str, epoch: int, newest: int | None) -> None:
        by = "its fence is gone" if newest is None else f"activation {newest} has taken over"
        super().__init__(path, f"activation {epoch} may not write any more: {by}; repeat the call")
        self.args = (path, epoch, newest)
        self.epoch = epoch
        self.newest = newest


class DiskFullError(StorageError):
    """The disk took no more. Nothing of the step was written; it may be repeated when there is room."""

    retryable = True


class DataDirectoryError(StorageError):
    """The data directory cannot be used: permission, not a directory, or on a missing disk."""


class IndexUnavailableError(StorageError):
    """An index could not be used just now. What it is made from is safe; repeat the call."""

    retryable = True


class IndexDamagedError(IndexUnavailableError):
    """An index cannot be read, or is not there: `perdure reindex` makes it anew. What it is made from is safe."""

    retryable = False


class EmbeddingMismatchError(IndexUnavailableError):
    """An index holds vectors of another embedding model than the settings name. Nothing was changed."""

    retryable = False

    def __init__(self, path: str, stored: str, wanted: str) -> None:
        super().__init__(
            path,
            f"holds vectors of {stored}, and the settings name {wanted}; run `perdure reindex` to embed everything"
            " anew, or set embedding.model and embedding.dimensions back",
        )
        self.args = (path, stored, wanted)
        self.stored = stored
        self.wanted = wanted


class InternalError(PerdureError):
    """A fault of Perdure itself; the text holds where it happened. Please report it."""

    def __init__(self, description: str) -> None:
        super().__init__(description)
        self.description = description

    def __str__(self) -> str:
        return f"Perdure failed: {self.description}"


class ClusterUnreachableError(PerdureError):
    """No Ray cluster answers at the address."""

    retryable = True

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        return f"no Ray cluster answers at {self.address!r} ({self.reason}); start one, or leave address= out"


class HostError(StorageError):
    """The process that owns the local Ray did not start, or has died; connect again to start another."""

    retryable = True


class SettingsMismatchError(SettingsError):
    """The runtime that serves the data directory was started with another value of a setting."""

    def __init__(self, key: str, in_force: str, given: str) -> None:
        super().__init__(
            key,
            f"{given} was given, and the running runtime was started with {in_force}",
            "leave the setting out, or end that runtime (`perdure down`) first",
        )
        self.args = (key, in_force, given)
        self.in_force = in_force
        self.given = given


class RuntimeClosedError(PerdureError):
    """A call came after `runtime.close()`."""

    def __str__(self) -> str:
        return "this runtime is closed; call connect() again"


class CallTimeoutError(PerdureError, TimeoutError):
    """No answer within `timeout_s`; the call may still be running and its turn may still finish."""

    retryable = True

    def __init__(self, call: str, timeout_s: float, turn_id: str | None = None) -> None:
        super().__init__(call, timeout_s, turn_id)
        self.call = call
        self.timeout_s = timeout_s
        self.turn_id = turn_id

    def __str__(self) -> str:
        text = f"{self.call}: no answer within {self.timeout_s:g} s"
        if self.turn_id is not None:
            text += f"; turn {self.turn_id!r} may still finish, repeating it with the same turn_id gives its reply"
        return text
