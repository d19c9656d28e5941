"""The weather example on a database: what the caller has got, another service on the same store already reads."""

from __future__ import annotations

from typing import Any

from live_gateway.content import user_content
from live_gateway.events import Event
from live_gateway.runner import Runner
from live_gateway.sessions.sql import SqlSessionService
from tests.support.runs import bot, call, short
from tests.support.stores import Store

HERE: dict[str, Any] = {"app_name": "app", "user_id": "u", "session_id": "s"}
EXPECTED = [
    "user: How is the weather in Rome?",
    "bot: FC(get_weather)",
    "bot: FR(get_weather:{'weather': 'sunny in Rome'})",
    "bot: It is sunny.",
]


async def read(other: SqlSessionService) -> list[Event]:
    return (await other.get(**HERE)).events


# contract: RUN-15, RUN-11, RUN-13, FLOW-01
# case: K-RUN-04
async def test_each_event_is_readable_elsewhere_before_the_loop_sees_it(database: Store) -> None:
    async with database.sql() as service, database.sql(read_only=True) as other:

        async def get_weather(city: str) -> dict[str, str]:
            """The weather in a city."""
            assert short(await read(other)) == EXPECTED[:2], "the call is stored before it is carried out"
            return {"weather": f"sunny in {city}"}

        agent = bot(call("get_weather", city="Rome"), "It is sunny.", tools=[get_weather])
        runner = Runner(app_name="app", agent=agent, session_service=service, auto_create_session=True)
        seen: list[Event] = []
        stream = runner.run(user_id="u", session_id="s", message=user_content("How is the weather in Rome?"), yield_user_message=True)
        async for event in stream:
            seen.append(event)
            stored = await read(other)
            assert stored == seen, "neither later nor earlier than the caller gets it"
            assert stored[-1].seq == len(seen)
        assert short(seen) == EXPECTED
        assert len({event.invocation_id for event in seen}) == 1
        assert seen[0].invocation_id.startswith("e-")
