"""What each side said, kept as artifacts (`save_live_blob`)."""

from __future__ import annotations

import asyncio
import io
import threading
import tracemalloc
import wave
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import pytest

from live_gateway.agents.config import LiveRunConfig
from live_gateway.agents.llm import LlmAgent
from live_gateway.artifacts.base import ArtifactService
from live_gateway.artifacts.memory import InMemoryArtifactService
from live_gateway.errors import ServiceMissing, StorageError, UpstreamLost
from live_gateway.events import Event
from live_gateway.live.kept_audio import MAX_BYTES, MAX_JOBS, SPOOL_BYTES, KeptAudio
from live_gateway.live.session import LiveSession
from live_gateway.models.live import AudioOut, Interrupted, LiveModel, TurnComplete
from live_gateway.plugins.base import Plugin
from live_gateway.runner import Runner
from live_gateway.sessions.memory import InMemorySessionService
from live_gateway.testing.scripted_live import ScriptedLiveModel
from live_gateway.testing.steps import Step, call, emit, end, expect_audio, expect_image, expect_tool_responses, fail, wait
from tests.support.invocations import make_invocation
from tests.support.live import all_of, in_short, spoke, stored

INPUT, INPUT_2 = b"\x01\x00" * 320, b"\x02\x00" * 320
OUTPUT, OUTPUT_2 = b"\x03\x00" * 480, b"\x04\x00" * 480


def runner_on(model: LiveModel, artifacts: ArtifactService | None, **options: Any) -> Runner:
    tools, plugins = options.pop("tools", ()), options.pop("plugins", ())
    return Runner(
        app_name="app",
        agent=LlmAgent(name="agent", live_model=model, tools=tools),
        session_service=InMemorySessionService(),
        artifact_service=artifacts,
        plugins=plugins,
        auto_create_session=True,
    )


def keeping(runner: Runner, *, keep: bool = True) -> LiveSession:
    return runner.run_live(user_id="u", session_id="s", config=LiveRunConfig(save_live_blob=keep))


def references(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event.content and any(part.file_data for part in event.content.parts or ())]


async def loaded(artifacts: ArtifactService, event: Event) -> tuple[int, bytes]:
    """Sample rate and samples of what this event refers to, through the artifact API."""
    ((name, version),) = event.actions.artifact_delta.items()
    part = await artifacts.load(app_name="app", user_id="u", session_id="s", name=name, version=version)
    assert part is not None
    assert part.inline_data is not None
    assert part.inline_data.mime_type == "audio/wav"
    assert event.content is not None
    reference = (event.content.parts or [])[0].file_data
    assert reference is not None
    assert (unquote(reference.file_uri or ""), reference.mime_type) == (f"artifact://app/u/s/{name}#{version}", "audio/wav")
    with wave.open(io.BytesIO(part.inline_data.data or b"")) as read:
        assert (read.getnchannels(), read.getsampwidth()) == (1, 2)
        return read.getframerate(), read.readframes(read.getnframes())


async def talk(script: list[Step], *pushed: bytes, **options: Any) -> tuple[InMemoryArtifactService, list[Event], list[Event | Exception]]:
    """A session whose user says all of this before the model goes on: artifacts, stored events, what was yielded."""
    artifacts = InMemoryArtifactService()
    with ScriptedLiveModel(script) as model:
        runner = runner_on(model, artifacts, **options)
        async with keeping(runner) as live:
            for pcm in pushed:
                live.push_audio(pcm)
            got = await all_of(live)
    return artifacts, await stored(runner), got


def heard(*pushed: bytes) -> list[Step]:
    return [expect_audio(pcm) for pcm in pushed]


# contract: LIVE-20
# case: K-LAUD-01, K-LAUD-08, K-LAUD-10
async def test_both_sides_are_kept_when_the_turn_is_complete() -> None:
    script = [*heard(INPUT, INPUT_2), emit(AudioOut(OUTPUT), AudioOut(OUTPUT_2), spoke("Hi."), TurnComplete()), end()]
    artifacts, events, got = await talk(script, INPUT, INPUT_2)
    user, agent = references(events)
    assert ((user.author, user.content.role), (agent.author, agent.content.role)) == (("user", "user"), ("agent", "model"))  # type: ignore[union-attr]
    assert await loaded(artifacts, user) == (16_000, INPUT + INPUT_2)
    assert await loaded(artifacts, agent) == (24_000, OUTPUT + OUTPUT_2)
    assert [event.id for event in got if isinstance(event, Event) and event.actions.artifact_delta] == [user.id, agent.id]
    assert user.seq > next(event.seq for event in events if event.turn_complete)
    assert user.custom_metadata["live"] == {"turn": 1, "ms": 40}


# contract: LIVE-20
# case: K-LIVE-38
async def test_the_order_in_the_store_is_the_order_of_delivery_although_audio_is_as_old_as_its_speech() -> None:
    second = b"\x03\x00" * 24_000
    script = [*heard(INPUT), emit(*[AudioOut(second)] * 3, spoke("Three seconds."), TurnComplete()), call("f", id="c1")]
    script += [expect_tool_responses("c1"), emit(spoke("Done."), TurnComplete()), end()]

    def f() -> str:
        """Do it."""
        return "ok"

    _, events, got = await talk(script, INPUT, tools=[f])
    assert len(references(events)) == 2
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    delivered = [event.id for event in got if isinstance(event, Event) and event.seq]
    assert delivered == [event.id for event in events]


# contract: LIVE-20
# case: K-LAUD-02, K-LAUD-03
@pytest.mark.parametrize(("pushed", "said", "authors"), [(INPUT, b"", ["user"]), (b"", OUTPUT, ["agent"]), (b"", b"", [])])
async def test_a_side_that_said_nothing_leaves_nothing(pushed: bytes, said: bytes, authors: list[str]) -> None:
    voice = [emit(AudioOut(said))] if said else []
    artifacts, events, _ = await talk([*(heard(pushed) if pushed else []), *voice, emit(TurnComplete()), end()], pushed)
    assert [event.author for event in references(events)] == authors
    assert len(await artifacts.list(app_name="app", user_id="u", session_id="s")) == len(authors)


# contract: LIVE-20
# case: K-LAUD-08
async def test_an_interruption_keeps_the_agents_side_and_the_users_goes_on() -> None:
    script = [*heard(INPUT), emit(AudioOut(OUTPUT), Interrupted()), emit(AudioOut(OUTPUT_2), TurnComplete()), end()]
    artifacts, events, _ = await talk(script, INPUT)
    assert [event.author for event in references(events)] == ["agent", "user", "agent"]
    assert [await loaded(artifacts, event) for event in references(events)] == [(24_000, OUTPUT), (16_000, INPUT), (24_000, OUTPUT_2)]


# contract: LIVE-20
# report: C15
@pytest.mark.parametrize("failing", [False, True])
async def test_what_was_said_is_kept_when_the_session_ends_within_a_turn(failing: bool) -> None:
    last = fail(UpstreamLost("gone")) if failing else end()
    artifacts, events, _ = await talk([*heard(INPUT), emit(AudioOut(OUTPUT)), last], INPUT)
    assert [await loaded(artifacts, event) for event in references(events)] == [(16_000, INPUT), (24_000, OUTPUT)]


# contract: LIVE-20, LIVE-23
# report: C15
async def test_what_was_said_is_kept_when_the_caller_closes() -> None:
    artifacts = InMemoryArtifactService()
    with ScriptedLiveModel(heard(INPUT)) as model:
        runner = runner_on(model, artifacts)
        async with keeping(runner) as live:
            live.push_audio(INPUT)
            await live.close()
            await live.close()
    (event,) = references(await stored(runner))
    assert await loaded(artifacts, event) == (16_000, INPUT)


# contract: LIVE-20
# case: K-LAUD-09
async def test_without_an_artifact_service_opening_is_refused() -> None:
    runner = runner_on(ScriptedLiveModel([end()]), None)
    with pytest.raises(ServiceMissing, match="save_live_blob"):
        async with keeping(runner):
            pass
    assert await stored(runner) == []


# contract: LIVE-20
# case: K-LAUD-08, K-LAUD-11
# report: C14
async def test_off_keeps_no_bytes() -> None:
    artifacts, hold = InMemoryArtifactService(), asyncio.Event()
    frame = bytes(640)
    with ScriptedLiveModel([wait(hold), emit(TurnComplete()), end()], allow=["audio"]) as model:
        runner = runner_on(model, artifacts)
        async with keeping(runner, keep=False) as live:
            tracemalloc.start()
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(180_000):  # an hour; a frame of its own each time, as from a socket
                live.push_audio(frame[:320] + frame[320:])
            after, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            hold.set()
            await all_of(live)
    assert after - before < 2**20
    assert references(await stored(runner)) == []
    assert await artifacts.list(app_name="app", user_id="u", session_id="s") == []


# contract: LIVE-20
# case: K-LAUD-07
async def test_only_audio_is_kept() -> None:
    artifacts = InMemoryArtifactService()
    with ScriptedLiveModel([expect_image(), *heard(INPUT), emit(TurnComplete()), end()]) as model:
        runner = runner_on(model, artifacts)
        async with keeping(runner) as live:
            await live.send_image(b"\xff\xd8\xff", "image/jpeg")
            live.push_audio(INPUT)
            await all_of(live)
    (event,) = references(await stored(runner))
    assert await loaded(artifacts, event) == (16_000, INPUT)


# contract: LIVE-20, LIVE-17
# report: A30
async def test_keeping_audio_does_not_keep_a_tool_from_running() -> None:
    def lookup() -> str:
        """Look."""
        return "found"

    script = [*heard(INPUT), emit(AudioOut(OUTPUT)), call("lookup"), emit(TurnComplete()), expect_tool_responses("fc-1"), end()]
    _, events, _ = await talk(script, INPUT, tools=[lookup])
    assert {"call lookup", "resp lookup"} <= set(in_short(events))
    assert len(references(events)) == 2


class Seen(Plugin):
    """Notes the references that it is shown."""

    def __init__(self) -> None:
        super().__init__("seen")
        self.authors: list[str] = []

    async def on_event(self, invocation: Any, event: Event) -> None:
        self.authors += [event.author] * len(references([event]))


# contract: LIVE-20, PLUG-07
async def test_plugins_see_the_references() -> None:
    seen = Seen()
    await talk([*heard(INPUT), emit(AudioOut(OUTPUT), TurnComplete()), end()], INPUT, plugins=[seen])
    assert seen.authors == ["user", "agent"]


# contract: LIVE-20, LIVE-18
async def test_a_reference_is_no_message_that_waits_for_an_answer() -> None:
    artifacts = InMemoryArtifactService()
    with ScriptedLiveModel([*heard(INPUT), emit(spoke("Hi."), TurnComplete()), end()], [end()]) as model:
        runner = runner_on(model, artifacts)
        async with keeping(runner) as live:
            live.push_audio(INPUT)
            await all_of(live)
        async with keeping(runner) as live:
            history = model.setups[1].history
            assert history is not None
            told = await history()
            await all_of(live)
    assert not told.unanswered
    assert [content.role for content in told.contents] == ["model"]


class Broken(InMemoryArtifactService):
    """Fails the first time."""

    async def save(self, **place: Any) -> int:
        if not self._kept:
            self._kept[("app", "u", "s")] = {}
            raise StorageError("the disk is full")
        return await super().save(**place)


# contract: LIVE-20
async def test_an_artifact_that_cannot_be_saved_is_told_and_the_session_goes_on() -> None:
    with ScriptedLiveModel([emit(AudioOut(OUTPUT), TurnComplete()), emit(AudioOut(OUTPUT_2), TurnComplete()), end()]) as model:
        runner = runner_on(model, Broken())
        async with keeping(runner) as live:
            got = await all_of(live)
    assert [str(error) for error in got if isinstance(error, Exception)] == ["audio of a turn could not be kept"]
    assert len(references(await stored(runner))) == 1


# The keeper itself.


class Keeper:
    """One that keeps into memory."""

    def __init__(self) -> None:
        from live_gateway.agents.services import ArtifactAccess

        self.artifacts = InMemoryArtifactService()
        self.events: list[Event] = []
        self.problems: list[Exception] = []
        invocation = make_invocation(LlmAgent(name="agent"))
        invocation.artifacts = ArtifactAccess(self.artifacts, app_name="app", user_id="u", session_id="s")
        self.kept = KeptAudio(invocation, self.events.append, self.problems.append, lambda: 1.0, turn=lambda: 1, on=True)

    async def idle(self) -> None:
        """Wait until nothing waits to be written or saved."""
        while len(self.kept._jobs):  # noqa: ASYNC110 - a channel has no such event
            await asyncio.sleep(0)

    async def sizes(self) -> list[int]:
        """How many bytes of samples each artifact has."""
        found = []
        for event in self.events:
            ((name, version),) = event.actions.artifact_delta.items()
            part = await self.artifacts.load(app_name="app", user_id="u", session_id="s", name=name, version=version)
            assert part is not None
            assert part.inline_data is not None
            found.append(len(part.inline_data.data or b"") - 44)
        return found


# contract: LIVE-20
async def test_a_long_turn_lies_in_a_file_and_is_cut_into_artifacts_of_bounded_size() -> None:
    keeper, frame, held = Keeper(), bytes(SPOOL_BYTES // 4), 0
    async with asyncio.TaskGroup() as group:
        group.create_task(keeper.kept.run())
        tracemalloc.start()
        for number in range(MAX_BYTES // len(frame) + 5):
            keeper.kept.heard(bytes(bytearray(frame)))  # bytes of its own each time
            if number % 4 == 3:
                await keeper.idle()
            if number == 40:
                held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        keeper.kept.finish()
    assert 0 < held < 3 * SPOOL_BYTES
    assert await keeper.sizes() == [MAX_BYTES, 5 * len(frame)]
    assert keeper.problems == []


# contract: LIVE-20
async def test_audio_that_nobody_writes_is_left_out_within_a_bound_and_told() -> None:
    keeper, frame = Keeper(), bytes(SPOOL_BYTES)
    for _ in range(MAX_JOBS + 8):
        keeper.kept.heard(frame)
    async with asyncio.TaskGroup() as group:
        group.create_task(keeper.kept.run())
        await keeper.idle()
        keeper.kept.finish()
    assert [str(problem) for problem in keeper.problems] == [
        f"{lost * SPOOL_BYTES} bytes of audio were not kept: the disk is too far behind" for lost in (1, 8)
    ]
    assert await keeper.sizes() == [16 * SPOOL_BYTES, 15 * SPOOL_BYTES]


# contract: LIVE-20
async def test_files_are_written_and_read_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    from live_gateway.live import kept_audio

    keeper, threads = Keeper(), set()
    for name in ("write", "wav"):
        plain = getattr(kept_audio._Take, name)

        def noted(*args: Any, plain: Any = plain) -> Any:
            threads.add(threading.current_thread())
            return plain(*args)

        monkeypatch.setattr(kept_audio._Take, name, noted)
    keeper.kept.heard(bytes(SPOOL_BYTES + 2))
    keeper.kept.finish()
    await keeper.kept.run()
    assert await keeper.sizes() == [SPOOL_BYTES + 2]
    assert threading.main_thread() not in threads
    assert threads
