"""A process that appends to sessions until it is killed or done: `append_worker.py URL NAME COUNT SESSION...`.

Prints `ready` once open, then `SESSION EVENT-ID SEQ` for each append that was acknowledged. COUNT: appends per session, 0 for no end.
"""

from __future__ import annotations

import asyncio
import itertools
import sys

from live_gateway.events import Event, EventActions
from live_gateway.sessions import Session, open_session_service


async def main(url: str, name: str, count: int, session_ids: list[str]) -> None:
    async with open_session_service(url) as service:

        async def append(session: Session) -> None:
            for n in range(count) if count else itertools.count():
                keys = {f"{name}-{n % 7}": n, f"user:{name}": n, f"app:{name}": n}
                event = Event(author="user", id=f"{name}-{n}", actions=EventActions(state_delta=keys))
                stored = await service.append_event(session, event)
                print(session.id, stored.id, stored.seq, flush=True)

        handles = [await service.get(app_name="app", user_id="u", session_id=session_id) for session_id in session_ids]
        print("ready", flush=True)
        async with asyncio.TaskGroup() as group:
            for handle in handles:
                group.create_task(append(handle))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]))
