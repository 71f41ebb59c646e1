"""Which rows of an index a search may find, and how that is said in a filter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from .records import AgentName, ContactId, ConversationId

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexScope:
    """An agent's rows, all of whose conditions hold. What is not given takes nothing in by accident."""

    agent: AgentName
    contacts: tuple[ContactId, ...] | None = ()
    """Rows of these contacts: of one person under several names. None: of every contact."""
    with_agent_wide: bool = True
    """Also rows that belong to no contact."""
    conversations: tuple[ConversationId, ...] | None = None
    """None: of any, or of none."""
    kinds: tuple[str, ...] | None = None
    roles: tuple[str, ...] | None = None
    created_from: datetime | None = None
    """Inclusive, UTC."""
    created_to: datetime | None = None
    """Inclusive, UTC."""

    def as_filter(self) -> str:
        """The condition in the SQL of LanceDB's filters, with every value quoted."""
        terms = [is_any_of("agent", [self.agent])]
        if self.contacts is not None:
            mine = is_any_of("contact", self.contacts)
            terms.append(f"({mine} OR contact IS NULL)" if self.with_agent_wide else mine)
        elif not self.with_agent_wide:
            terms.append("contact IS NOT NULL")
        for column, values in (
            ("conversation", self.conversations),
            ("kind", self.kinds),
            ("role", self.roles),
        ):
            if values is not None:
                terms.append(is_any_of(column, values))
        if self.created_from is not None:
            terms.append(f"created_at_us >= {microseconds(self.created_from)}")
        if self.created_to is not None:
            terms.append(f"created_at_us <= {microseconds(self.created_to)}")
        return " AND ".join(terms)


def is_any_of(column: str, values: Iterable[str]) -> str:
    """The condition that a column has one of the values; of none, that nothing fulfils it."""
    literals = ", ".join(map(_literal, values))
    return f"{column} IN ({literals})" if literals else "FALSE"


def _literal(value: str) -> str:
    """A text in a filter. DataFusion knows one special character in it, the quote."""
    return "'" + value.replace("'", "''") + "'"


def microseconds(moment: datetime) -> int:
    """A time as whole microseconds since 1970. A naive time is taken as UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)
