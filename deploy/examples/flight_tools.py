"""Tools in a module of their own: any process can import them, so they survive the script that named them."""

import os
from datetime import date

from perdure.actors import ToolContext, tool


@tool(idempotent=True, timeout_s=20)
def search_flights(origin: str, destination: str, day: date) -> list[dict[str, str]]:
    """Search flights.

    Args:
        origin: City of departure.
        destination: City of arrival.
        day: Day of departure.
    """
    route = f"{origin} to {destination} on {day:%d %B}"
    return [{"flight": "TP 1957", "route": route, "price": "64 EUR"}]


@tool  # not idempotent: when nobody knows whether it happened, it is not done again, and the model is told so
def hold_seat(flight: str, seat: str, context: ToolContext) -> str:
    """Hold a seat.

    Args:
        flight: Number of the flight.
        seat: Such as 14C.
    """
    # A booking system that takes a key of yours lets even an unknown call be cleared up afterwards.
    key = f"{context.conversation_id}/{context.turn_id}/{context.call_id}"
    return f"{seat} on {flight} is held under the key {key}, by process {os.getpid()}"
