"""Transcriptions out of pieces: what is partial, what is complete, what closes what."""

from __future__ import annotations

from itertools import count
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_gateway.content import Part, Transcription, model_content
from live_gateway.events import Event, replace
from live_gateway.live.items import Partial, TranscriptUpdate
from live_gateway.live.transcript import MAX_CHARS, Built, PassedText, TranscriptBuilder, merge_partials
from live_gateway.models.live import Transcript

Role = Literal["user", "model"]


def builder() -> TranscriptBuilder:
    ids, ticks = count(1), count(100)
    return TranscriptBuilder(agent="agent", invocation_id="inv", new_id=lambda: f"t{next(ids)}", wall=lambda: float(next(ticks)))


def feed(target: TranscriptBuilder, *pieces: Transcript, turn: int = 1) -> list[Built]:
    return [built for piece in pieces for built in target.feed(piece, turn)]


def said(role: Role, *texts: str) -> list[Transcript]:
    return [Transcript(role, text) for text in texts]


def text(event: Event) -> str:
    assert event.transcription is not None
    assert event.transcription.text is not None
    return event.transcription.text


def brief(built: list[Built]) -> list[str]:
    """`in~a` for a partial, `in:a` for a complete one."""
    sides = ["in" if event.input_transcription else "out" for event, _ in built]
    return [f"{side}{'~' if event.partial else ':'}{text(event)}" for side, (event, _) in zip(sides, built, strict=True)]


# report: A21
# contract: LIVE-16
def test_each_piece_is_a_partial_event_with_the_whole_text_beside_it() -> None:
    (first, one), (second, two) = feed(builder(), *said("model", "Ca", "n I"))
    assert [text(first), text(second)] == ["Ca", "n I"]
    assert first.partial
    assert first.author == "agent"
    assert first.invocation_id == "inv"
    assert first.output_transcription == Transcription(text="Ca", finished=False)
    assert first.content is None
    assert one == TranscriptUpdate("t1", 1, "model", "agent", "Ca", "Ca", revision=1)
    assert two == TranscriptUpdate("t1", 1, "model", "agent", "Can I", "n I", revision=2)
    assert first.id == second.id == "t1"


# report: A26
# contract: LIVE-16
def test_the_users_words_are_an_input_transcription_by_the_user() -> None:
    target = builder()
    feed(target, *said("user", "what is ", "it"), turn=3)
    [(complete, update)] = target.turn_complete()
    assert update is None
    assert complete.author == "user"
    assert complete.id == "t1"
    assert complete.timestamp == 102.0
    assert not complete.partial
    assert complete.input_transcription == Transcription(text="what is it", finished=True)
    assert complete.output_transcription is None
    assert complete.content is None
    assert complete.custom_metadata == {"live": {"turn": 3}}


# report: A20
# contract: LIVE-16
@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        ("generation_complete", ["out:yes"]),
        ("turn_complete", ["in:q", "out:yes"]),
        ("interrupted", ["in:q", "out:yes"]),
        ("end", ["in:q", "out:yes"]),
    ],
)
def test_what_closes_what(mark: str, expected: list[str]) -> None:
    target = builder()
    feed(target, *said("model", "ye", "s"), *said("user", "q"))
    closed: list[Built] = getattr(target, mark)()
    assert brief(closed) == expected
    assert all(event.custom_metadata["live"].get("incomplete", False) is (mark == "end") for event, _ in closed)
    rest = target.end()
    assert brief(closed + rest) == (expected if len(expected) == 2 else ["out:yes", "in:q"])
    assert target.end() == []


# report: A22
def test_a_transcription_sent_once_and_finished_is_one_complete_event() -> None:
    target = builder()
    assert brief(feed(target, Transcript("user", "hi", finished=True))) == ["in:hi"]
    assert target.turn_complete() == []
    assert target.end() == []


# contract: LIVE-16
def test_a_piece_marked_finished_closes_its_own_direction() -> None:
    target = builder()
    feed(target, *said("user", "q"))
    assert brief(feed(target, Transcript("model", "a"), Transcript("model", "b", finished=True))) == ["out~a", "out~b", "out:ab"]
    assert brief(feed(target, Transcript("user", "", finished=True))) == ["in:q"]


# report: A24
# contract: LIVE-16
def test_a_complete_transcription_never_changes_and_late_pieces_open_a_new_one() -> None:
    target = builder()
    first = feed(target, Transcript("model", "abc", finished=True))
    late = feed(target, Transcript("model", "ab"))
    assert brief(first) == ["out:abc"]
    assert brief(late) == ["out~ab"]
    assert late[0][0].id != first[0][0].id
    assert late[0][1] is not None
    assert late[0][1].text == "ab"
    assert brief(target.turn_complete()) == ["out:ab"]


# report: A25
def test_late_words_of_the_user_keep_the_turn_they_were_spoken_in() -> None:
    target = builder()
    target.feed(Transcript("model", "fine"), 2)
    target.turn_complete()
    [(late, _)] = target.feed(Transcript("user", "how are you", finished=True), 1)
    assert late.custom_metadata["live"]["turn"] == 1


def test_the_turn_of_the_first_piece_counts() -> None:
    target = builder()
    target.feed(Transcript("user", "a"), 1)
    target.feed(Transcript("user", "b"), 2)
    [(complete, _)] = target.turn_complete()
    assert complete.custom_metadata["live"]["turn"] == 1


# report: A36
@pytest.mark.parametrize("blank", ["", " ", "\n"])
@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("replaces", [False, True])
def test_blank_pieces_open_nothing_and_make_no_event(blank: str, finished: bool, replaces: bool) -> None:
    target = builder()
    assert target.feed(Transcript("model", blank, finished=finished, replaces=replaces), 1) == []
    assert target.generation_complete() + target.turn_complete() + target.end() == []


def test_an_empty_piece_inside_a_transcription_changes_nothing() -> None:
    target = builder()
    assert brief(feed(target, *said("model", "a", "", " ", "b"))) == ["out~a", "out~ ", "out~b"]
    assert brief(target.generation_complete()) == ["out:a b"]


def test_a_recogniser_that_only_goes_on_adds_to_the_text() -> None:
    pieces = [Transcript("user", whole, replaces=True) for whole in ("turn", "turn on", "turn on")]
    built = feed(builder(), *pieces)
    assert brief(built) == ["in~turn", "in~ on"]
    assert [(update.text, update.delta) for _, update in built if update] == [("turn", "turn"), ("turn on", " on")]
    assert all("replaces" not in event.custom_metadata["live"] for event, _ in built)


def test_a_recogniser_that_changes_its_mind_replaces_the_text() -> None:
    target = builder()
    built = feed(target, Transcript("user", "turn of", replaces=True), Transcript("user", "turn on", replaces=True))
    event, update = built[1]
    assert text(event) == "turn on"
    assert event.custom_metadata["live"] == {"turn": 1, "replaces": True}
    assert update is not None
    assert (update.text, update.delta, update.revision) == ("turn on", "", 2)
    assert brief(feed(target, Transcript("user", "turn on.", finished=True, replaces=True))) == ["in~.", "in:turn on."]


def test_a_transcription_that_is_taken_back_leaves_no_complete_event() -> None:
    target = builder()
    feed(target, Transcript("user", "hm", replaces=True))
    [(event, update)] = feed(target, Transcript("user", "", finished=True, replaces=True))
    assert event.partial
    assert event.input_transcription == Transcription(text="", finished=True)
    assert update is not None
    assert (update.item, update.text) == ("t1", "")
    assert target.turn_complete() == []
    assert feed(target, *said("user", "yes"))[0][0].id == "t2"


def test_times_and_language_go_from_the_pieces_to_the_complete_event() -> None:
    target = builder()
    pieces = [Transcript("user", "a", start_ms=40, end_ms=90), Transcript("user", "b", language="de-DE", start_ms=90, end_ms=300)]
    built = feed(target, *pieces)
    assert built[1][1] is not None
    assert (built[1][1].start_ms, built[1][1].end_ms, built[1][1].language) == (40, 300, "de-DE")
    [(complete, _)] = target.turn_complete()
    assert complete.custom_metadata == {"live": {"turn": 1, "startMs": 40, "endMs": 300}}
    assert complete.input_transcription == Transcription(text="ab", finished=True, language_code="de-DE")


# contract: LIVE-21
def test_an_open_transcription_keeps_its_author_over_a_transfer() -> None:
    target = builder()
    feed(target, *said("model", "let me hand over"))
    target.agent = "other"
    assert target.generation_complete()[0][0].author == "agent"
    assert feed(target, *said("model", "hello"))[0][0].author == "other"


def test_no_text_grows_without_a_bound() -> None:
    target = builder()
    piece = "x" * 1000
    built = feed(target, *said("model", *[piece] * 50))
    wholes = [event for event, _ in built if not event.partial]
    assert len(wholes) == 2
    assert all(len(text(event)) <= MAX_CHARS + len(piece) for event in wholes)
    assert "".join(map(text, wholes + [event for event, _ in target.end()])) == piece * 50


def test_a_text_that_is_replaced_each_time_is_never_split() -> None:
    target = builder()
    long = "x" * (MAX_CHARS + 1)
    assert brief(feed(target, *[Transcript("user", long + "y" * n, replaces=True) for n in range(3)])) == [f"in~{long}", "in~y", "in~y"]
    assert brief(target.turn_complete()) == [f"in:{long}yy"]


# The rules as properties.

pieces = st.builds(
    Transcript,
    role=st.sampled_from(["user", "model"]),
    text=st.sampled_from(["", " ", "a", "b ", "ab", "c d"]),
    finished=st.booleans(),
    replaces=st.booleans(),
)
scripts = st.lists(st.one_of(pieces, st.sampled_from(["generation_complete", "turn_complete", "interrupted"])), max_size=30)


def play(script: list[Transcript | str]) -> list[Built]:
    target = builder()
    built: list[Built] = []
    for step in script:
        built += target.feed(step, 1) if isinstance(step, Transcript) else getattr(target, step)()
    return built + target.end()


# contract: LIVE-16
@given(scripts)
def test_each_transcription_is_completed_exactly_once_or_taken_back(script: list[Transcript | str]) -> None:
    over: set[str] = set()
    shown: dict[str, str] = {}
    for event, update in play(script):
        assert event.id not in over, "nothing comes after the end of a transcription"
        finished = bool(event.transcription and event.transcription.finished)
        if event.partial:
            assert update is not None
            assert update.item == event.id
            replaces = event.custom_metadata["live"].get("replaces", False)
            shown[event.id] = text(event) if replaces else shown.get(event.id, "") + text(event)
            assert update.text == shown[event.id]
            assert finished is (update.text == "")
        else:
            assert update is None
            assert finished
            assert text(event).strip()
            assert text(event) == shown.get(event.id, text(event))
        if finished:
            over.add(event.id)
    assert set(shown) <= over


# contract: LIVE-16
@given(st.lists(pieces.filter(lambda piece: not piece.replaces), max_size=30))
def test_no_word_is_lost(script: list[Transcript]) -> None:
    built = play(list(script))
    for role in ("user", "model"):
        wholes = "".join(text(event) for event, _ in built if not event.partial and (event.author == "user") is (role == "user"))
        fed = "".join(piece.text for piece in script if piece.role == role)
        assert wholes.replace(" ", "") == fed.replace(" ", "")


# What the plugins let through.


def partials(*texts: str) -> list[tuple[Event, TranscriptUpdate]]:
    return [(event, update) for event, update in feed(builder(), *said("model", *texts)) if update is not None]


def with_text(event: Event, words: str | None) -> Event:
    transcription = None if words is None else Transcription(text=words, finished=False)
    return replace(event, output_transcription=transcription)


# contract: LIVE-08, PLUG-04
def test_a_word_that_a_plugin_took_out_of_a_piece_is_in_no_later_update() -> None:
    passed = PassedText()
    (one, u1), (two, u2), (three, u3) = partials("pin ", "1234", " ok")
    assert passed.apply(one, u1) == u1
    assert passed.apply(with_text(two, "***"), u2) == TranscriptUpdate("t1", 1, "model", "agent", "pin ***", "***", revision=2)
    third = passed.apply(three, u3)
    assert third is not None
    assert third.text == "pin *** ok"


# case: K-LIVE-22
def test_a_piece_without_words_has_no_update() -> None:
    passed = PassedText()
    (one, u1), (two, u2) = partials("a", "b")
    assert passed.apply(with_text(one, None), u1) is None
    second = passed.apply(two, u2)
    assert second is not None
    assert second.text == "b"


@given(scripts)
def test_without_a_plugin_updates_stay_as_they_are(script: list[Transcript | str]) -> None:
    passed = PassedText()
    for event, update in play(script):
        if update is not None:
            assert passed.apply(event, update) == update


def test_the_pieces_of_a_text_answer_pass_too() -> None:
    passed = PassedText()
    update = TranscriptUpdate("a1", 1, "model", "agent", "Hello", "Hello", source="text")
    event = Event(author="agent", id="a1", partial=True, content=model_content([Part(text="Hello")]))
    assert passed.apply(event, update) == update


# Merging.


@given(st.lists(st.tuples(st.sampled_from(["a", "b ", "ab"]), st.booleans()), min_size=2, max_size=8), st.data())
def test_merged_pieces_say_the_same_as_the_pieces(script: list[tuple[str, bool]], data: st.DataObject) -> None:
    built = feed(builder(), *[Transcript("model", words, replaces=replaces) for words, replaces in script])
    items = [Partial(event, update) for event, update in built]
    cut = data.draw(st.integers(0, len(items)))
    merged = items[:cut] + [m for m in [merge_all(items[cut:])] if m]
    shown = ""
    for item in merged:
        replaces = item.event.custom_metadata["live"].get("replaces", False)
        shown = text(item.event) if replaces else shown + text(item.event)
        assert item.transcript is not None
        assert item.transcript.text == shown
    assert items[-1].transcript is not None
    assert shown == items[-1].transcript.text
    assert merged[-1].event.id == items[-1].event.id


def merge_all(items: list[Partial]) -> Partial | None:
    if not items:
        return None
    merged = items[0]
    for item in items[1:]:
        merged = merge_partials(merged, item)
    return merged


def test_merged_pieces_of_a_text_answer_hold_all_their_parts() -> None:
    update = TranscriptUpdate("a1", 1, "model", "agent", "Hello", "Hello", source="text")
    first = Event(author="agent", id="a1", partial=True, content=model_content([Part(text="Hel")]))
    second = replace(first, content=model_content([Part(text="lo")]))
    merged = merge_partials(Partial(first, update), Partial(second, update))
    assert merged.event.text == "Hello"
    assert first.text == "Hel"


def test_only_pieces_with_a_transcript_can_be_merged() -> None:
    event = Event(author="agent", partial=True)
    with pytest.raises(ValueError, match="transcript"):
        merge_partials(Partial(event), Partial(event))
