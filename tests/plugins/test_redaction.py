"""What has to go is gone: from messages, from whole transcriptions and from every piece of one."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_gateway.content import Content, Part, Transcription, user_content
from live_gateway.errors import ConfigurationError
from live_gateway.events import Event
from live_gateway.live.items import Partial, TranscriptUpdate
from live_gateway.live.transcript import PassedText
from live_gateway.models.live import TurnComplete
from live_gateway.plugins.redaction import RedactionPlugin
from live_gateway.runner import Runner
from live_gateway.testing.scripted_live import ScriptedLiveModel
from live_gateway.testing.steps import emit, end, expect_content
from tests.support.invocations import make_invocation
from tests.support.live import go_live, heard, in_short, live_runner, spoke
from tests.support.live import stored as live_stored
from tests.support.runs import bot, model_of, run, short, stored

CARD = r"\b\d{4}(?: ?\d{4}){3}\b"
NUMBER = "4111 1111 1111 1111"


def plugin(*patterns: str | re.Pattern[str], **options: Any) -> RedactionPlugin:
    return RedactionPlugin(patterns or [CARD], **options)


# contract: PLUG-01, RUN-08
async def test_neither_model_nor_store_sees_what_was_redacted() -> None:
    agent = bot("fine")
    runner = Runner.in_memory("app", agent, plugins=[plugin()])
    message = Content(role="user", parts=[Part(text=f"pay with {NUMBER} now"), Part(text="please")])
    before = message.model_copy(deep=True)
    await run(runner, message)
    (request,) = model_of(agent).requests
    assert [part.text for part in request.contents[0].parts or ()] == ["pay with [redacted] now", "please"]
    assert short(await stored(runner)) == ["user: pay with [redacted] nowplease", "bot: fine"]
    assert message == before


async def test_a_message_without_a_match_is_the_message_itself() -> None:
    content = user_content("hello")
    assert await plugin().on_user_message(make_invocation(bot("x")), content) is None


def test_overlapping_matches_become_one_replacement() -> None:
    assert plugin("abc", "cde", re.compile("X", re.IGNORECASE), replacement="*").redact("abcde x abc cde") == "* * * *"
    assert plugin("a").redact("") == ""


@pytest.mark.parametrize(("pattern", "words"), [("(", "no regular expression"), ("a*", "empty text")])
def test_patterns_that_make_no_sense_are_refused(pattern: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        plugin(pattern)


# contract: LIVE-08, PLUG-04
@pytest.mark.virtual_time
async def test_in_live_neither_typed_nor_spoken_numbers_come_through() -> None:
    spoken = [heard(piece) for piece in ("My card is 41", "11 1111 ", "1111 1111", ", thanks")]
    again = [spoke(piece) for piece in ("So that is 4111 1111 ", "1111 1111. Right?")]
    with ScriptedLiveModel([expect_content("[redacted]"), emit(*spoken), emit(*again, TurnComplete()), end()]) as model:
        runner = live_runner(model, plugins=[plugin()])
        shown: list[str] = []
        async with go_live(runner) as live:
            await live.send(user_content(NUMBER))
            async for item in live.items():
                if isinstance(item, Partial) and item.transcript is not None:
                    shown += [item.transcript.text, item.transcript.delta, str(item.event.transcription)]
    assert shown
    assert not any(re.search(r"\d", text) for text in shown)
    assert in_short(list(await live_stored(runner)))[:3] == [
        'user "[redacted]"',
        'IN "My card is [redacted], thanks"',
        'OUT "So that is [redacted]. Right?"',
    ]


async def pass_pieces(redaction: RedactionPlugin, pieces: list[str], *, replaces: bool = False) -> tuple[list[str], str]:
    """The whole texts that a listener is shown one after the other, and the complete one."""
    invocation = make_invocation(bot("x"))
    passed = PassedText()
    shown: list[str] = []
    said = ""
    for piece in pieces:
        said = piece if replaces else said + piece
        metadata = {"live": {"turn": 1} | ({"replaces": True} if replaces else {})}
        event = _event(piece, partial=True, custom_metadata=metadata)
        update = TranscriptUpdate(item="t", turn=1, role="user", author="user", text=said, delta=piece)
        seen = await redaction.on_event(invocation, event)
        assert seen is not None
        assert seen.id == event.id
        result = passed.apply(seen, update)
        assert result is not None
        shown.append(result.text)
    whole = await redaction.on_event(invocation, _event(said))
    assert whole is not None
    assert whole.transcription is not None
    return shown, whole.transcription.text or ""


def _event(text: str, **fields: Any) -> Event:
    return Event(author="user", id="t", input_transcription=Transcription(text=text, finished=not fields), **fields)


async def test_the_newest_words_are_held_back_until_they_are_known_to_be_harmless() -> None:
    shown, whole = await pass_pieces(plugin(hold=10), ["one two three", " four five six", " seven"])
    assert shown == ["", "one two three ", "one two three four "]
    assert whole == "one two three four five six seven"


async def test_without_holding_back_a_match_is_replaced_as_soon_as_it_is_whole() -> None:
    shown, whole = await pass_pieces(plugin("secret", hold=0), ["a sec", "ret b", " c"])
    assert shown == ["a sec", "a [redacted] b", "a [redacted] b c"]
    assert whole == "a [redacted] b c"


async def test_a_recogniser_that_changes_its_mind_does_not_bring_it_back() -> None:
    pieces = ["the secret", "the secret is", "the secrets are"]
    shown, whole = await pass_pieces(plugin("secret", hold=0), pieces, replaces=True)
    assert shown == ["the [redacted]", "the [redacted] is", "the [redacted]s are"]
    assert whole == "the [redacted]s are"


WORDS = st.lists(st.sampled_from(["one ", "4111 ", "1111 ", "1111 ", NUMBER, " and ", "so", " ", "11", "41"]), min_size=1, max_size=30)


# contract: LIVE-08
@given(WORDS, st.data())
async def test_no_piece_shows_any_part_of_a_match(words: list[str], data: st.DataObject) -> None:
    said = "".join(words)
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(said))), max_size=8)))
    pieces = [said[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(said)], strict=True) if said[start:stop]]
    redaction = plugin()
    shown, whole = await pass_pieces(redaction, pieces)
    assert whole == redaction.redact(said)
    assert not re.search(CARD, whole)
    for text in shown:
        assert whole.startswith(text), "what is shown of a growing transcription is the beginning of the complete one"


async def test_nothing_is_kept_of_a_session_that_is_over() -> None:
    redaction = plugin()
    invocation = make_invocation(bot("x"))
    await redaction.on_event(invocation, _event("41", partial=True))
    await redaction.after_run(invocation)
    assert redaction._growing == {}
