"""What every store of sessions must do."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest

from live_gateway.content import Blob, Content, Part, user_content
from live_gateway.errors import DuplicateEvent, InvalidInput, InvalidState, SessionExists, SessionNotFound
from live_gateway.events import Event, EventActions, encode_event, event_from_dict, replace
from live_gateway.sessions import Session, SessionService

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "events.json").read_text())
WHO: dict[str, Any] = {"app_name": "app", "user_id": "u"}


def delta(**values: Any) -> EventActions:
    return EventActions(state_delta=values)


async def read(service: SessionService, session: Session, **options: Any) -> Session:
    return await service.get(app_name=session.app_name, user_id=session.user_id, session_id=session.id, **options)


# contract: SES-01
# case: K-SES-01, K-SES-02
async def test_create_and_get(service: SessionService) -> None:
    made = await service.create(**WHO, session_id="test-session-id", state={"k": 5})
    assert (made.app_name, made.user_id, made.id, dict(made.state), made.head_seq, made.events) == (
        "app",
        "u",
        "test-session-id",
        {"k": 5},
        0,
        [],
    )
    assert await service.get(**WHO, session_id="test-session-id") == made
    unnamed = await service.create(**WHO)
    assert len(unnamed.id) == 32
    with pytest.raises(SessionExists, match="test-session-id"):
        await service.create(**WHO, session_id="test-session-id", state={"k": 6})
    assert (await read(service, made)).state == {"k": 5}
    others: list[dict[str, Any]] = [{"app_name": "app", "user_id": "other"}, {"app_name": "other", "user_id": "u"}]
    for who in others:
        with pytest.raises(SessionNotFound):
            await service.get(**who, session_id="test-session-id")
    with pytest.raises(SessionNotFound):
        await service.get(**WHO, session_id="unknown")


# contract: SES-01
# case: K-SES-03
async def test_recent_then_after(service: SessionService) -> None:
    session = await service.create(**WHO)
    for n in range(1, 6):
        await service.append_event(session, Event(author="u", timestamp=1000.0 + n))

    async def numbers(**options: Any) -> list[int]:
        found = await read(service, session, **options)
        assert found.head_seq == 5
        return [event.seq for event in found.events]

    assert await numbers() == [1, 2, 3, 4, 5]
    assert await numbers(recent=3) == [3, 4, 5]
    assert await numbers(recent=0) == []
    assert await numbers(recent=9) == [1, 2, 3, 4, 5]
    assert await numbers(after=1002.0) == [2, 3, 4, 5]
    assert await numbers(recent=2, after=1001.0) == [4, 5]
    assert await numbers(recent=4, after=1004.0) == [4, 5]
    assert await numbers(after_seq=3) == [4, 5]
    assert await numbers(after_seq=1, recent=2) == [4, 5]
    assert await numbers(after_seq=5) == []


# contract: SES-01
# case: K-SES-04
async def test_list(service: SessionService) -> None:
    first = await service.create(app_name="app", user_id="user1", state={"user:a": 1})
    await service.create(app_name="app", user_id="user1", state={"app:b": 2, "c": 3})
    await service.create(app_name="app", user_id="user2")
    await service.append_event(first, Event(author="u"))
    listed = await service.list(app_name="app", user_id="user1")
    assert len(listed) == 2
    assert all(session.events == [] for session in listed)
    states = {session.id: dict(session.state) for session in listed}
    assert states.pop(first.id) == {"user:a": 1, "app:b": 2}
    assert list(states.values()) == [{"user:a": 1, "app:b": 2, "c": 3}]
    assert {session.id: session.head_seq for session in listed}[first.id] == 1
    assert len(await service.list(app_name="app", user_id="user2")) == 1
    assert await service.list(app_name="app", user_id="unknown") == []
    assert await service.list(app_name="unknown") == []
    assert len(await service.list(app_name="app")) == 3


# contract: SES-01
# case: K-SES-05
async def test_delete(service: SessionService) -> None:
    session = await service.create(**WHO, session_id="s", state={"app:kept": 1, "own": 2})
    await service.append_event(session, Event(author="u"))
    await service.delete(app_name="app", user_id="other", session_id="s")
    assert len((await read(service, session)).events) == 1
    await service.delete(**WHO, session_id="s")
    with pytest.raises(SessionNotFound):
        await read(service, session)
    await service.delete(**WHO, session_id="s")
    again = await service.create(**WHO, session_id="s")
    assert dict(again.state) == {"app:kept": 1}
    assert (await read(service, again)).events == []
    with pytest.raises(SessionNotFound, match="made again"):
        await service.append_event(session, Event(author="u"))
    assert (await read(service, again)).head_seq == 0


# contract: SES-01
# case: K-SES-06
async def test_append_to_nothing_and_partial_events(service: SessionService) -> None:
    session = await service.create(**WHO)
    partial = Event(author="a", partial=True, actions=delta(k=1))
    assert await service.append_event(session, partial) is partial
    assert (session.head_seq, session.events, dict(session.state)) == (0, [], {})
    assert (await read(service, session)).events == []
    stranger = Session(app_name="app", user_id="u", id="gone", state={})
    with pytest.raises(SessionNotFound, match="gone"):
        await service.append_event(stranger, Event(author="a"))
    assert (stranger.head_seq, stranger.events) == (0, [])


# contract: SES-02
# case: K-SES-07, K-SES-08, K-SES-09, K-SES-10
async def test_what_is_read_back_equals_what_was_appended(service: SessionService) -> None:
    session = await service.create(**WHO)
    given = [replace(event_from_dict(vector["json"]), seq=0) for vector in VECTORS]
    stored = [await service.append_event(session, event) for event in given]
    assert stored == [replace(event, seq=n) for n, event in enumerate(given, 1)]
    found = await read(service, session)
    assert found.events == session.events == stored
    assert found.state == session.state
    assert found.last_update_time == session.last_update_time == given[-1].timestamp


# contract: SES-02
# case: K-SES-13
async def test_neither_side_changes_the_other(service: SessionService) -> None:
    session = await service.create(**WHO)
    value = {"inner": [1, 2]}
    content = Content(role="user", parts=[Part(text="before"), Part(inline_data=Blob(data=b"\x00\xff", mime_type="image/png"))])
    event = Event(author="u", content=content, actions=delta(k=value, **{"temp:t": value}), custom_metadata={"m": value}, seq=77)
    before = encode_event(event)
    stored = await service.append_event(session, event)
    assert encode_event(event) == before
    assert event.actions.state_delta["temp:t"] == value
    assert stored.seq == 1
    value["inner"].append(3)
    assert content.parts is not None
    content.parts[0].text = "after"
    for seen in (session, await read(service, session)):
        assert seen.events[0].text == "before"
        assert seen.events[0].custom_metadata == {"m": {"inner": [1, 2]}}
        assert seen.state["k"]["inner"] == (1, 2)


# contract: STATE-01
# case: K-STATE-04, K-STATE-06, K-STATE-07
async def test_temp_keys_are_never_stored(service: SessionService) -> None:
    session = await service.create(**WHO, state={"temp:t0": 1, "sk": "v1", "app:temp:x": 1})
    stored = await service.append_event(session, Event(author="u", actions=delta(**{"temp:k1": 1, "sk": "v2", "user:temp:y": 2})))
    assert stored.actions.state_delta == {"sk": "v2", "user:temp:y": 2}
    expected = {"sk": "v2", "app:temp:x": 1, "user:temp:y": 2}
    assert dict(session.state) == expected
    found = await read(service, session)
    assert dict(found.state) == expected
    assert found.events[0].actions.state_delta == {"sk": "v2", "user:temp:y": 2}


# contract: STATE-02
# case: K-STATE-02, K-STATE-03
async def test_who_sees_which_state(service: SessionService) -> None:
    one = await service.create(app_name="app", user_id="u1")
    await service.append_event(one, Event(author="u", actions=delta(**{"app:a": 1, "user:b": 2, "c": None})))
    assert dict((await read(service, one)).state) == {"app:a": 1, "user:b": 2, "c": None}
    sibling = await service.create(app_name="app", user_id="u1")
    assert dict(sibling.state) == {"app:a": 1, "user:b": 2}
    assert dict((await service.create(app_name="app", user_id="u2")).state) == {"app:a": 1}
    assert dict((await service.create(app_name="app2", user_id="u1")).state) == {}


# contract: STATE-03
# case: K-STATE-09
async def test_state_changes_on_append_alone(service: SessionService) -> None:
    session = await service.create(**WHO, state={"k": 1})
    first = await service.append_event(session, Event(author="u", actions=delta(k=2)))
    with pytest.raises(DuplicateEvent):
        await service.append_event(session, replace(first, actions=delta(k=3)))
    assert dict(session.state) == dict((await read(service, session)).state) == {"k": 2}


# contract: STATE-04
async def test_the_handle_shows_a_delta_as_soon_as_it_is_stored(service: SessionService) -> None:
    session = await service.create(**WHO)
    snapshot = session.state
    await service.append_event(session, Event(author="agent", actions=delta(answer="42", **{"user:n": 1})))
    assert dict(session.state) == {"answer": "42", "user:n": 1}
    assert dict(snapshot) == {}


# contract: STATE-05
async def test_fetched_state_is_read_only(service: SessionService) -> None:
    made = await service.create(**WHO, state={"cart": {"items": [{"n": 1}]}, "app:x": {"y": 1}})
    await service.append_event(made, Event(author="u", actions=delta(fresh={"a": [1]})))
    for session in (made, await read(service, made), *await service.list(app_name="app")):
        state: Any = session.state
        for target in (state, state["cart"], state["cart"]["items"][0], state["app:x"], state["fresh"]):
            with pytest.raises(TypeError):
                target["n"] = 2
        for items in (state["cart"]["items"], state["fresh"]["a"]):
            with pytest.raises(AttributeError):
                items.append(1)
    assert (await read(service, made)).state["cart"]["items"][0]["n"] == 1


# contract: STATE-08
@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (1, "v", "int"),
        ("k", object(), "'k' is of type object"),
        ("k", {"a": {1, 2}}, "set"),
        ("k", {"a": [b"x"]}, "bytes"),
        ("k", {1: "x"}, "int"),
        ("k", math.nan, "nan"),
        ("user:k", [math.inf], "'user:k' is inf"),
        ("temp:k", object(), "temp:k"),
        ("k", "\ud800", "surrogate"),
        ("\udfff", 1, "surrogate"),
    ],
)
async def test_state_that_is_no_json_is_refused(service: SessionService, key: Any, value: Any, words: str) -> None:
    session = await service.create(**WHO)
    with pytest.raises(InvalidState, match=words):
        await service.append_event(session, Event(author="u", actions=EventActions(state_delta={key: value})))
    with pytest.raises(InvalidState, match=words):
        await service.create(**WHO, session_id="bad", state={key: value})
    assert (session.head_seq, dict(session.state)) == (0, {})
    assert (await read(service, session)).head_seq == 0
    with pytest.raises(SessionNotFound):
        await service.get(**WHO, session_id="bad")


@pytest.mark.parametrize(
    "event",
    [
        Event(author="u", output=object()),
        Event(author="u", timestamp=math.nan),
        Event(author="u", content=user_content("\ud800")),
        Event(author="a\x00b"),
        Event(author="u", id=""),
        Event(author="u", id="x" * 201),
        Event(author="u", invocation_id="\ud800"),
        Event(author="u", custom_metadata={"k": "x" * (17 * 1024 * 1024)}),
    ],
    ids=["object", "nan", "surrogate", "nul", "no id", "long id", "invocation", "huge"],
)
async def test_an_event_that_no_store_can_hold_is_refused(service: SessionService, event: Event) -> None:
    session = await service.create(**WHO)
    with pytest.raises(InvalidInput) as raised:
        await service.append_event(session, event)
    assert len(str(raised.value)) < 200
    assert (await service.append_event(session, Event(author="u"))).seq == 1


async def test_names_that_no_store_can_hold(service: SessionService) -> None:
    for bad in ("a\x00b", "\ud800", "x" * 201):
        with pytest.raises(InvalidInput, match="session id"):
            await service.create(**WHO, session_id=bad)
        with pytest.raises(SessionNotFound):
            await service.get(**WHO, session_id=bad)
        await service.delete(**WHO, session_id=bad)
        assert await service.list(app_name=bad) == []
        assert await service.list(app_name="app", user_id=bad) == []


# contract: EVT-04
# case: K-DB-05
async def test_an_event_id_is_stored_once(service: SessionService) -> None:
    session = await service.create(**WHO)
    event = Event(author="u", actions=delta(n=1))
    await service.append_event(session, event)
    other = await read(service, session)
    await service.append_event(other, Event(author="u", actions=delta(n=2)))
    for handle in (session, other):
        with pytest.raises(DuplicateEvent, match=event.id):
            await service.append_event(handle, event)
    found = await read(service, session)
    assert [one.seq for one in found.events] == [1, 2]
    assert found.state["n"] == 2
    second = await service.create(**WHO)
    assert (await service.append_event(second, event)).seq == 1


# contract: STATE-07
async def test_a_handle_that_was_behind_catches_up(service: SessionService) -> None:
    first = await service.create(**WHO, state={"a": 0})
    late, recent, listed = await read(service, first), await read(service, first, recent=1), (await service.list(app_name="app"))[0]
    for n in range(1, 6):
        await service.append_event(first, Event(author="u", id=f"e{n}", actions=delta(a=n, **{f"k{n}": n, "user:n": n})))
    assert late.head_seq == 0
    stored = await service.append_event(late, Event(author="v", actions=delta(b=1)))
    assert stored.seq == late.head_seq == 6
    assert [event.seq for event in late.events] == [1, 2, 3, 4, 5, 6]
    assert late.state == {"a": 5, "b": 1, "user:n": 5, "k1": 1, "k2": 2, "k3": 3, "k4": 4, "k5": 5}
    assert late == await read(service, first)
    for handle in (recent, listed, first):
        await service.append_event(handle, Event(author="w"))
        assert handle.state == late.state
    assert [event.seq for event in first.events] == list(range(1, 10))
    refused = await read(service, first, recent=0)
    await service.append_event(first, Event(author="u"))
    with pytest.raises(DuplicateEvent):
        await service.append_event(refused, Event(author="u", id="e1"))
    assert (refused.head_seq, refused.events) == (9, [])
    await service.append_event(refused, Event(author="u"))
    assert [event.seq for event in refused.events] == [10, 11]


# case: K-DB-03
async def test_equal_timestamps_keep_the_order_of_appends(service: SessionService) -> None:
    session = await service.create(**WHO)
    ids = [f"{n % 7}-{n}" for n in range(20)]
    for name in ids:
        await service.append_event(session, Event(author="u", id=name, timestamp=5.0))
    assert [event.id for event in (await read(service, session)).events] == ids


# case: K-SES-11
async def test_one_of_many_concurrent_creates_wins(service: SessionService) -> None:
    async def create(n: int) -> bool:
        try:
            await service.create(**WHO, session_id=f"s{n % 16}", state={"winner": n})
        except SessionExists:
            return False
        return True

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(create(n)) for n in range(16 * 32)]
    winners = [n for n, task in enumerate(tasks) if task.result()]
    assert len(winners) == 16
    assert {session.state["winner"] for session in await service.list(app_name="app")} == set(winners)


# contract: STATE-07, EVT-04
# case: K-DB-02
async def test_many_tasks_append_through_their_own_handles(service: SessionService) -> None:
    sessions = [await service.create(**WHO) for _ in range(3)]

    async def append(writer: int) -> None:
        handle = await read(service, sessions[writer % 3])
        for n in range(15):
            keys = {f"k{writer}": n, f"user:k{writer}": n, f"app:k{writer}": n}
            stored = await service.append_event(handle, Event(author="u", id=f"{writer}-{n}", actions=delta(**keys)))
            assert handle.head_seq >= stored.seq
            assert handle.state[f"k{writer}"] == n
            assert [event.seq for event in handle.events] == list(range(1, handle.head_seq + 1))

    async with asyncio.TaskGroup() as group:
        for writer in range(9):
            group.create_task(append(writer))
    for n, session in enumerate(sessions):
        found = await read(service, session)
        assert [event.seq for event in found.events] == list(range(1, 46))
        for writer in (n, n + 3, n + 6):
            assert [event.id for event in found.events if event.id.startswith(f"{writer}-")] == [f"{writer}-{m}" for m in range(15)]
            assert found.state[f"k{writer}"] == 14
        assert all(found.state[f"{prefix}k{writer}"] == 14 for prefix in ("user:", "app:") for writer in range(9))


# contract: STATE-07
async def test_one_handle_shared_by_many_tasks(service: SessionService) -> None:
    session = await service.create(**WHO)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(service.append_event(session, Event(author="u", id=str(n)))) for n in range(60)]
    assert [task.result().seq for task in tasks] == list(range(1, 61))
    assert [event.seq for event in session.events] == list(range(1, 61))
    assert session == await read(service, session)


# contract: STATE-07, EVT-04
async def test_failures_inside_a_batch_concern_nobody_else(service: SessionService) -> None:
    session = await service.create(**WHO)
    other = await service.create(**WHO)
    await service.append_event(session, Event(author="u", id="old"))
    gone = Session(app_name="app", user_id="u", id="gone", state={})
    wanted = [(session, "a"), (session, "old"), (gone, "b"), (other, "c"), (session, "a"), (session, "d"), (other, "old")]

    async def append(handle: Session, name: str) -> int | str:
        try:
            return (await service.append_event(handle, Event(author="u", id=name, actions=delta(**{name: 1})))).seq
        except (DuplicateEvent, SessionNotFound) as error:
            return error.code

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(append(*one)) for one in wanted]
    assert [task.result() for task in tasks] == [2, "duplicate_event", "session_not_found", 1, "duplicate_event", 3, 2]
    assert [event.id for event in (await read(service, session)).events] == ["old", "a", "d"]
    assert dict((await read(service, session)).state) == {"a": 1, "d": 1}
    assert [event.id for event in (await read(service, other)).events] == ["c", "old"]


async def test_a_cancelled_append_is_stored_or_not_and_never_half(service: SessionService) -> None:
    session = await service.create(**WHO)
    for n in range(12):
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(service.append_event(session, Event(author="u", id=f"{n}-{m}", actions=delta(last=m)))) for m in range(4)
            ]
            await service.list(app_name="app") if n % 2 else await asyncio.sleep(0.0005 * n)
            tasks[1].cancel()
            tasks[2].cancel()
    await service.append_event(session, Event(author="u", id="end"))
    found = await read(service, session)
    assert [event.seq for event in found.events] == list(range(1, found.head_seq + 1))
    assert session.events == found.events
    assert session.state == found.state
    ids = {event.id for event in found.events}
    assert ids.issuperset({f"{n}-{m}" for n in range(12) for m in (0, 3)} | {"end"})
