"""What a provider's failure means: may it pass, how long to wait, and what a person can do about it."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from ..storage.errors import ModelError, ModelRequestError, ModelUnavailableError

_PASSING_STATUSES = frozenset({408, 409, 425, 429})
_NOISE = re.compile(r"^(?:litellm\.)?\w*(?:Error|Exception|Timeout)\b(?: APIConnectionError)?\s*[:-]\s*")
_KEY_NEEDED = re.compile(r"api[_ -]?key|credential", re.IGNORECASE)
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_SHORTEST_SECRET = 8
_LONGEST_DETAIL = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed attempt at an answer."""

    model: str
    reason: str
    """What happened and what to do, without secrets."""
    may_pass: bool
    is_worth_retrying: bool = False
    """It lies with the server or the way to it; a fault in between is not tried again at once."""
    retry_after_s: float | None = None
    """The pause that the provider asks for."""

    def as_error(self, attempts: int) -> ModelError:
        """The error to raise after that many attempts."""
        if not self.may_pass:
            return ModelRequestError(self.model, self.reason)
        reason = self.reason if attempts == 1 else f"{self.reason} ({attempts} attempts)"
        if self.retry_after_s:
            reason += f"; it asks to wait {self.retry_after_s:g} s"
        return ModelUnavailableError(self.model, reason)

    @classmethod
    def of(
        cls,
        error: Exception,
        model: str,
        timeout_s: float,
        missing_keys: tuple[str, ...],
        too_long: str = "lower PERDURE_CONTEXT__BUDGET_TOKENS",
    ) -> Failure:
        """Read an error of litellm's, whose types follow the HTTP status of OpenAI's errors.

        Args:
            missing_keys: The environment variables that the model's provider needs and that are not set.
            too_long: What to do about a request that is longer than the model takes.
        """
        error = getattr(error, "original_exception", None) or error  # of a stream that broke off
        detail = _detail(error)
        if isinstance(error, TimeoutError) or _is_a(error, "APITimeoutError"):
            reason = f"no complete answer within {timeout_s:g} s"
            return cls(model=model, reason=reason, may_pass=True, is_worth_retrying=True)
        if (problem := _problem(error, detail, missing_keys, too_long)) is not None:
            return cls(model=model, reason=problem, may_pass=False)
        return cls(
            model=model,
            reason=detail,
            may_pass=True,
            is_worth_retrying=isinstance(error, OSError) or hasattr(error, "status_code"),
            retry_after_s=_retry_after_s(error),
        )


def _problem(error: Exception, detail: str, missing_keys: tuple[str, ...], too_long: str) -> str | None:
    """What is wrong with the request itself and what to do; None: the failure may pass."""
    status = getattr(error, "status_code", None)
    where = "in the environment of the processes that run models"
    if missing_keys and (status in (401, 403) or _KEY_NEEDED.search(detail)):
        return f"no key; set {' and '.join(missing_keys)} {where}"
    if detail.startswith("Missing credentials"):
        return f"no key: {detail}"
    if isinstance(error, ImportError):
        return f"{detail}; install the package that litellm needs for this provider"
    if isinstance(error, UnicodeError):
        return f"the request cannot be encoded: {detail}"
    if "LLM Provider NOT provided" in detail:
        return (
            "unknown model; name it with its provider, such as openai/gpt-4o-mini, or set PERDURE_MODELS__API_BASE"
            " to the server that has it"
        )
    if _is_a(error, "ContextWindowExceededError") or status == 413:
        return f"the request is longer than the model takes ({detail}); {too_long}"
    if _is_a(error, "ContentPolicyViolationError"):
        return f"the provider's content policy refuses the request: {detail}"
    if status == 402 or getattr(error, "code", None) == "insufficient_quota" or "exceeded your current quota" in detail:
        return f"the account has no credit left ({detail}); see the provider's billing page"
    if status in (401, 403):
        return f"the key was refused, HTTP {status} ({detail}); set a valid one {where}"
    if status == 404:
        return f"not found ({detail}); check the model's name and PERDURE_MODELS__API_BASE"
    if isinstance(status, int) and 400 <= status < 500 and status not in _PASSING_STATUSES:
        return f"the request was refused, HTTP {status}: {detail}"
    return None


def _is_a(error: Exception, type_name: str) -> bool:
    return any(parent.__name__ == type_name for parent in type(error).__mro__)


def _detail(error: Exception) -> str:
    """The first line of the error's message, without litellm's prefixes and without secrets."""
    text = str(error).strip() or type(error).__name__
    while (rest := _NOISE.sub("", text, count=1)) != text and rest:
        text = rest
    if not hasattr(error, "status_code"):
        text = f"{type(error).__name__}: {text}"
    text = without_secrets(text.splitlines()[0])
    return text if len(text) <= _LONGEST_DETAIL else f"{text[:_LONGEST_DETAIL]}…"


def _retry_after_s(error: Exception) -> float | None:
    """The pause that the response asks for, in seconds or as a date, read by the server's own clock."""
    headers: Mapping[str, str] = getattr(getattr(error, "response", None), "headers", None) or {}
    if not headers.get("retry-after"):
        headers = getattr(error, "litellm_response_headers", None) or {}
    given = headers.get("retry-after")
    if not given:
        return None
    try:
        pause_s = float(given)
    except ValueError:
        try:
            until, now = parsedate_to_datetime(given), parsedate_to_datetime(headers.get("date") or "")
            pause_s = (until - now).total_seconds()
        except (TypeError, ValueError):
            return None
    return pause_s if pause_s >= 0 else 0.0


def _secrets() -> list[str]:
    """The values of this process's environment that look like keys, longest first."""
    values = {value for name, value in os.environ.items() if _SECRET_NAME.search(name)}
    return sorted((value for value in values if len(value) >= _SHORTEST_SECRET), key=len, reverse=True)


def without_secrets(text: str) -> str:
    """The text with this process's keys blotted out; providers like to repeat them."""
    for secret in _secrets():
        text = text.replace(secret, "[key]")
    return text


def safe_cause(error: BaseException) -> BaseException | None:
    """The error, to be chained, unless its traceback would show a key."""
    shown = "".join(traceback.format_exception(error))
    return None if without_secrets(shown) != shown else error
