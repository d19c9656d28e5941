"""The scripted live model: it plays its script, and notices everything that is not in it."""

from __future__ import annotations

import asyncio

import pytest

from live_gateway.content import FunctionResponse, user_content
from live_gateway.errors import ModelUnavailable, UpstreamLost
from live_gateway.models.live import (
    Activity,
    AudioOut,
    ConnectionNotice,
    GenerationComplete,
    LiveConnection,
    LiveMessage,
    LiveModel,
    LiveSetup,
    SpeechEnded,
    SpeechStarted,
    ToolCalls,
    Transcript,
    TurnComplete,
)
from live_gateway.testing import ScriptedLiveModel, steps
from live_gateway.testing.scripted_live import ScriptedConnection

pytestmark = pytest.mark.virtual_time

SETUP = LiveSetup(instruction="be brief")


async def _messages(connection: LiveConnection, count: int) -> list[LiveMessage | None]:
    return [await connection.receive() for _ in range(count)]


async def test_it_says_what_the_script_says_and_ends() -> None:
    model: LiveModel = ScriptedLiveModel([steps.hear("hello"), steps.say("Hi there", ms=100), steps.end()])
    async with model.connect(SETUP) as connection:
        messages = await _messages(connection, 9)
        assert await connection.receive() is None
    assert messages[:3] == [SpeechStarted(), Transcript("user", "hello", finished=True), SpeechEnded()]
    assert [message.text for message in messages if isinstance(message, Transcript) and message.role == "model"] == ["Hi ", "there"]
    assert sum(len(message.pcm) for message in messages if isinstance(message, AudioOut)) == 24_000 * 2 // 10
    assert messages[-2:] == [GenerationComplete(), TurnComplete()]


async def test_what_it_says_waits_for_what_it_expects() -> None:
    with ScriptedLiveModel([steps.expect_content("a"), steps.call("move", {"x": 1}), steps.expect_tool_responses("fc-1")]) as model:
        async with model.connect(SETUP) as connection, asyncio.TaskGroup() as group:
            received = group.create_task(connection.receive())
            await asyncio.sleep(1)
            assert not received.done()
            await connection.send_content(user_content("a"))
            calls = await received
            assert isinstance(calls, ToolCalls)
            assert calls.calls[0].args == {"x": 1}
            await connection.send_tool_responses([FunctionResponse(id="fc-1", name="move", response={})])
    assert model.setups == [SETUP]
    assert [sent.kind for sent in model.connection.sent] == ["content", "tool_responses"]


async def test_every_kind_of_send_can_be_expected() -> None:
    script = [
        steps.expect_audio(b"\1\0"),
        steps.expect_audio(),
        steps.expect_audio(ms=60),
        steps.expect_image("image/png"),
        steps.expect_activity(Activity.START),
        steps.expect_activity(Activity.END),
        steps.expect_end_audio(),
        steps.expect_interrupt(),
        steps.expect_content(check=lambda content: content.role == "user"),
        steps.expect_tool_responses(check=lambda responses: responses[0].response == {"ok": True}),
    ]
    with ScriptedLiveModel(script) as model:
        async with model.connect(SETUP) as connection:
            await connection.send_audio(b"\1\0")
            for size in (2, 640, 640, 640):  # 60 ms are 1920 bytes
                await connection.send_audio(bytes(size))
            await connection.send_image(b"...", "image/png")
            await connection.send_activity(Activity.START)
            await connection.send_activity(Activity.END)
            await connection.end_audio()
            await connection.interrupt()
            await connection.send_content(user_content("any"))
            await connection.send_tool_responses([FunctionResponse(id="1", name="n", response={"ok": True})])
            connection.set_playing(True)
            connection.set_playing(False)
    assert model.connection.playing == [True, False]
    assert len(model.connection.audio) == 2 + 2 + 1920


async def test_an_unexpected_send_fails_at_once_on_leaving_and_in_verify() -> None:
    model = ScriptedLiveModel([steps.expect_content("a"), steps.say("b")])
    connecting = model.connect(SETUP)
    connection = await connecting.__aenter__()
    with pytest.raises(AssertionError, match="unexpected content 'x'"):
        await connection.send_content(user_content("x"))
    with pytest.raises(AssertionError):
        await connection.receive()
    with pytest.raises(AssertionError, match="PROBLEM: unexpected content 'x'"):
        await connecting.__aexit__(None, None, None)
    with pytest.raises(AssertionError) as caught:
        model.verify()
    assert str(caught.value).splitlines() == [
        "connection 1:",
        "  left  expect content 'a'",
        "  left  say 'b'",
        "  it was sent: content 'x'",
        "  PROBLEM: unexpected content 'x'",
    ]


async def test_a_send_wakes_a_waiting_receive_when_it_is_wrong() -> None:
    model = ScriptedLiveModel([steps.expect_content("a")])
    connection = await model.connect(SETUP).__aenter__()
    async with asyncio.TaskGroup() as group:
        received = group.create_task(_error_of(connection))
        await asyncio.sleep(1)
        with pytest.raises(AssertionError):
            await connection.end_audio()
        assert isinstance(await received, AssertionError)


async def _error_of(connection: ScriptedConnection) -> BaseException | None:
    try:
        await connection.receive()
    except AssertionError as error:
        return error
    return None


@pytest.mark.parametrize("script", [[steps.say("unheard")], [steps.expect_interrupt()], [steps.pause(1)], [steps.end()]])
async def test_a_step_that_is_left_fails(script: list[steps.Step]) -> None:
    model = ScriptedLiveModel(script)
    with pytest.raises(AssertionError, match="left"):
        async with model.connect(SETUP):
            pass
    with pytest.raises(AssertionError, match="left"):
        model.verify()


async def test_another_error_is_not_hidden_by_left_steps() -> None:
    model = ScriptedLiveModel([steps.say("unheard")])
    with pytest.raises(KeyError):
        async with model.connect(SETUP):
            raise KeyError("mine")


async def test_a_silent_script_hangs_and_that_is_fine() -> None:
    for script in ([], [steps.hang()]):
        with ScriptedLiveModel(script) as model:
            async with model.connect(SETUP) as connection:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(100):
                        await connection.receive()


async def test_allowed_kinds_may_come_at_any_time() -> None:
    with ScriptedLiveModel([steps.expect_content("a")], allow=("audio", "interrupt")) as model:
        async with model.connect(SETUP) as connection:
            await connection.send_audio(b"\0\0")
            await connection.interrupt()
            await connection.send_content(user_content("a"))
            await connection.send_audio(b"\0\0")
    assert model.connection.report().endswith("1 x audio, 2 bytes; interrupt; content 'a'; 1 x audio, 2 bytes")


async def test_a_kind_that_is_not_allowed_is_still_a_problem() -> None:
    model = ScriptedLiveModel([], allow={"audio"})
    connection = await model.connect(SETUP).__aenter__()
    with pytest.raises(AssertionError, match="unexpected end_audio"):
        await connection.end_audio()


# report: A40
@pytest.mark.parametrize("response", [FunctionResponse(id="1", response={}), FunctionResponse(name="n", response={})])
async def test_a_response_needs_id_and_name(response: FunctionResponse) -> None:
    model = ScriptedLiveModel([steps.expect_tool_responses()])
    connection = await model.connect(SETUP).__aenter__()
    with pytest.raises(AssertionError, match="without id or name"):
        await connection.send_tool_responses([response])


# report: A43
async def test_audio_must_be_whole_samples() -> None:
    model = ScriptedLiveModel([], allow={"audio"})
    connection = await model.connect(SETUP).__aenter__()
    with pytest.raises(AssertionError, match="641 bytes"):
        await connection.send_audio(bytes(641))


async def test_a_broken_connection_stays_broken() -> None:
    with ScriptedLiveModel([steps.fail(UpstreamLost("gone"))]) as model:
        async with model.connect(SETUP) as connection:
            for _ in range(2):
                with pytest.raises(UpstreamLost, match="gone"):
                    await connection.receive()
            with pytest.raises(UpstreamLost):
                await connection.send_content(user_content("too late"))
    assert model.connection.sent == []


async def test_gates_and_pauses_hold_the_model_back() -> None:
    gate = asyncio.Event()
    loop = asyncio.get_running_loop()
    with ScriptedLiveModel([steps.pause(30), steps.wait(gate), steps.say("now")]) as model:
        async with model.connect(SETUP) as connection:
            loop.call_later(50, gate.set)
            start = loop.time()
            assert await connection.receive() == Transcript("model", "now")
            assert loop.time() - start == pytest.approx(50)
            await _messages(connection, 3)


async def test_a_send_can_be_refused_or_delayed() -> None:
    gate = asyncio.Event()
    script = [steps.refuse(steps.expect_content("a"), UpstreamLost("no")), steps.delay(steps.expect_content("b"), gate)]
    loop = asyncio.get_running_loop()
    with ScriptedLiveModel(script) as model:
        async with model.connect(SETUP) as connection:
            with pytest.raises(UpstreamLost, match="no"):
                await connection.send_content(user_content("a"))
            loop.call_later(5, gate.set)
            start = loop.time()
            await connection.send_content(user_content("b"))
            assert loop.time() - start == pytest.approx(5)


async def test_one_script_for_each_connection() -> None:
    model = ScriptedLiveModel([steps.end()], [steps.end()])
    async with model.connect(SETUP) as connection:
        assert await connection.receive() is None
    with pytest.raises(AssertionError, match="never connected"):
        model.verify()
    async with model.connect(SETUP) as connection:
        assert await connection.receive() is None
    model.verify()
    with pytest.raises(AssertionError, match="more connections"):
        model.connect(SETUP)
    with pytest.raises(AssertionError, match="more connections"):
        model.verify()


async def test_connecting_can_fail_take_time_and_give_notices() -> None:
    notices: list[ConnectionNotice] = []
    loading = ConnectionNotice("voice_loading")
    script = [steps.on_connect(steps.emit(loading), steps.pause(3), steps.fail(ModelUnavailable("no voice")))]
    model = ScriptedLiveModel(script)
    start = asyncio.get_running_loop().time()
    with pytest.raises(ModelUnavailable):
        async with model.connect(LiveSetup(notify=notices.append)):
            pass
    assert notices == [loading]
    assert asyncio.get_running_loop().time() - start == pytest.approx(3)
    model.verify()


def test_impossible_scripts_are_refused() -> None:
    scripts: list[list[steps.Step]] = [[steps.say("a"), steps.on_connect()], [steps.end(), steps.say("a")], [steps.hang(), steps.end()]]
    for script in scripts:
        with pytest.raises(ValueError, match="only possible as the"):
            ScriptedLiveModel(script)
    with pytest.raises(ValueError, match="at least one"):
        steps.emit()


async def test_a_failing_check_tells_what_it_missed() -> None:
    def check(responses: object) -> bool:
        raise AssertionError("no summary in it")

    model = ScriptedLiveModel([steps.expect_tool_responses(check=check)])
    connection = await model.connect(SETUP).__aenter__()
    with pytest.raises(AssertionError, match="not as expected: no summary"):
        await connection.send_tool_responses([FunctionResponse(id="1", name="n", response={})])
