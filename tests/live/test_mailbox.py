"""What waits for a listener: order, bounds, and what is dropped, merged, read back or given up when nobody takes it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live_gateway.content import FunctionCall, Part, model_content
from live_gateway.errors import SlowConsumer
from live_gateway.events import Event
from live_gateway.live.items import (
    AudioChunk,
    LiveItem,
    Notice,
    Partial,
    Relay,
    ResponseInterrupted,
    ResponseStarted,
    StateChanged,
    Stored,
)
from live_gateway.live.mailbox import (
    AUDIO_LIMIT_SAMPLES,
    AUDIO_PATIENCE_S,
    AUDIO_SAMPLES,
    MAX_CONTROL,
    MAX_PARTIALS,
    MAX_STORED,
    Mailbox,
    MailboxItem,
    ReadBack,
)
from live_gateway.live.transcript import TranscriptBuilder
from live_gateway.models.live import OUTPUT_HZ, Transcript

SECOND = bytes(2 * OUTPUT_HZ)


def seconds(first: int, last: int, response: int = 1) -> list[AudioChunk]:
    """The seconds `first` to `last` (not included) of a response, one chunk each."""
    return [AudioChunk(response, n * OUTPUT_HZ, SECOND) for n in range(first, last)]


def put_all(mailbox: Mailbox, items: Sequence[LiveItem], now: float = 0.0) -> None:
    for item in items:
        mailbox.put(item, now)


def drain(mailbox: Mailbox, now: float = 0.0) -> list[MailboxItem]:
    items: list[MailboxItem] = []
    while (item := mailbox.take(now)) is not None:
        items.append(item)
    return items


def stored(seq: int, event_id: str = "") -> Stored:
    return Stored(Event(author="agent", id=event_id or f"e{seq}", seq=seq, timestamp=1.0))


def answer(item: str, *texts: str) -> list[Partial]:
    builder = TranscriptBuilder(agent="agent", invocation_id="i", new_id=lambda: item, wall=lambda: 1.0)
    built = [one for text in texts for one in builder.feed(Transcript("model", text), 1)]
    return [Partial(event, update) for event, update in built]


def gap(ms: int) -> Notice:
    return Notice("warning", "audio_gap", {"dropped_ms": ms, "direction": "down"})


# Order.


# contract: LIVE-25
def test_items_come_out_as_they_went_in() -> None:
    mailbox = Mailbox()
    items: list[LiveItem] = [
        ResponseStarted(1, 1),
        *seconds(0, 1),
        *answer("t1", "Hel", "lo"),
        *seconds(1, 2),
        Relay("{}"),
        stored(1, "t1"),
        StateChanged("listening"),
        *seconds(2, 3),
    ]
    put_all(mailbox, items)
    assert len(mailbox) == len(items)
    assert drain(mailbox) == items
    assert len(mailbox) == 0


# contract: LIVE-23
def test_a_closed_mailbox_gives_what_is_left_and_takes_no_more() -> None:
    mailbox = Mailbox()
    mailbox.put(Relay("a"), 0.0)
    mailbox.close()
    mailbox.put(Relay("b"), 0.0)
    assert mailbox.closed
    assert drain(mailbox) == [Relay("a")]


# Audio.


# contract: LIVE-25
def test_an_answer_made_in_one_burst_arrives_whole() -> None:
    mailbox = Mailbox()
    burst = seconds(0, 15)
    put_all(mailbox, burst)
    assert drain(mailbox, now=3600.0) == burst
    assert mailbox.dropped_samples == 0


# contract: LIVE-25
def test_only_audio_that_waited_for_more_than_ten_seconds_is_dropped() -> None:
    mailbox = Mailbox()
    burst = seconds(0, 30)
    put_all(mailbox, burst)
    assert mailbox.take(AUDIO_PATIENCE_S) == burst[0]
    assert drain(mailbox, AUDIO_PATIENCE_S + 0.1) == [gap(9_000), *burst[10:]]
    assert mailbox.dropped_samples == 9 * OUTPUT_HZ


# contract: LIVE-25
def test_a_listener_that_is_gone_finds_the_newest_twenty_seconds() -> None:
    mailbox = Mailbox()
    talk = seconds(0, 100)
    for second, chunk in enumerate(talk):
        mailbox.put(chunk, float(second))
    assert mailbox.waiting_samples == AUDIO_SAMPLES
    assert drain(mailbox, 100.0) == [gap(80_000), *talk[80:]]


# contract: LIVE-25
def test_no_burst_grows_without_a_bound() -> None:
    mailbox = Mailbox()
    put_all(mailbox, seconds(0, 500))
    assert mailbox.waiting_samples == AUDIO_LIMIT_SAMPLES
    assert mailbox.take(0.0) == gap(380_000)


# contract: LIVE-25
def test_each_gap_is_told_once_where_it_was() -> None:
    mailbox = Mailbox()
    talk = seconds(0, 60)
    mailbox.put(ResponseStarted(1, 1), 0.0)
    put_all(mailbox, talk[:25])
    mailbox.put(Relay("between"), 0.0)
    put_all(mailbox, talk[25:30], 11.0)
    assert mailbox.take(11.0) == ResponseStarted(1, 1)
    assert mailbox.take(11.0) == gap(10_000)
    assert mailbox.take(11.0) == talk[10]
    put_all(mailbox, talk[30:33], 11.0)
    assert mailbox.take(11.0) == gap(2_000)
    assert drain(mailbox, 11.0) == [*talk[13:25], Relay("between"), *talk[25:33]]


# contract: LIVE-25
def test_an_interruption_takes_the_waiting_audio_away_at_once() -> None:
    mailbox = Mailbox()
    old, newer = seconds(0, 3, response=4), seconds(0, 2, response=6)
    stop = ResponseInterrupted(5, "speech")
    put_all(mailbox, [*old, Relay("x"), *seconds(0, 2, response=5), stop, *old, *newer])
    assert drain(mailbox) == [Relay("x"), stop, *newer]
    assert mailbox.dropped_samples == 0


# contract: LIVE-25
def test_a_gap_in_audio_that_was_interrupted_is_of_no_interest() -> None:
    mailbox = Mailbox()
    for second, chunk in enumerate(seconds(0, 40)):
        mailbox.put(chunk, float(second))
    mailbox.flush(1)
    assert drain(mailbox, 41.0) == []
    assert mailbox.dropped_samples == 20 * OUTPUT_HZ
    assert mailbox.waiting_samples == 0


# contract: LIVE-25
def test_a_gap_in_the_answer_that_plays_is_told_although_an_older_one_is_flushed() -> None:
    mailbox = Mailbox()
    for second, chunk in enumerate(seconds(0, 25, response=2)):
        mailbox.put(chunk, float(second))
    mailbox.flush(1)
    assert mailbox.take(25.0) == gap(5_000)


# contract: LIVE-25
def test_what_is_flushed_stays_flushed() -> None:
    mailbox = Mailbox()
    mailbox.flush(5)
    mailbox.flush(3)
    put_all(mailbox, seconds(0, 1, response=4) + seconds(0, 1, response=6))
    assert drain(mailbox) == seconds(0, 1, response=6)


class AudioLaw:
    """An own account of what waits, to hold the mailbox against: one chunk is one second."""

    def __init__(self) -> None:
        self.mailbox = Mailbox()
        self.now = 0.0
        self.response = 1
        self.made = 0
        self.waiting: list[tuple[float, AudioChunk]] = []
        self.dropped = 0
        self.told = 0

    def put(self) -> None:
        chunk = AudioChunk(self.response, self.made, SECOND)
        self.made += 1
        self.mailbox.put(chunk, self.now)
        self.waiting.append((self.now, chunk))
        self.account_for_drops()
        late = self.now - self.waiting[0][0] > AUDIO_PATIENCE_S
        assert len(self.waiting) <= (AUDIO_SAMPLES if late else AUDIO_LIMIT_SAMPLES) // OUTPUT_HZ

    def take(self) -> MailboxItem | None:
        item = self.mailbox.take(self.now)
        self.account_for_drops()
        if isinstance(item, Notice):
            self.told += int(item.params["dropped_ms"]) // 1000
            assert self.told == self.dropped
        elif item is not None:
            assert self.told == self.dropped, "a gap is told before the audio after it"
            assert item == self.waiting.pop(0)[1]
        return item

    def flush(self) -> None:
        self.mailbox.flush(self.response)
        self.waiting.clear()
        self.response += 1
        self.told = self.dropped

    def account_for_drops(self) -> None:
        """What was dropped since the last look was the oldest, and it was allowed to be dropped."""
        while self.dropped < self.mailbox.dropped_samples // OUTPUT_HZ:
            total = len(self.waiting) * OUTPUT_HZ
            since, _ = self.waiting.pop(0)
            assert total > AUDIO_SAMPLES
            assert self.now - since > AUDIO_PATIENCE_S or total > AUDIO_LIMIT_SAMPLES
            self.dropped += 1


# contract: LIVE-25
@given(st.lists(st.tuples(st.sampled_from(["put", "put", "put", "take", "wait", "flush"]), st.integers(1, 30)), max_size=40))
def test_audio_is_dropped_oldest_first_only_when_late_and_every_gap_is_told(steps: list[tuple[str, int]]) -> None:
    law = AudioLaw()
    for step, amount in steps:
        if step == "wait":
            law.now += amount / 2
        elif step == "flush":
            law.flush()
        else:
            for _ in range(amount):
                law.put() if step == "put" else law.take()
    while law.take() is not None:
        pass
    assert law.waiting == []
    assert law.told == law.dropped


# Partial transcripts.


# contract: LIVE-25
def test_few_pieces_are_left_as_they_are() -> None:
    mailbox = Mailbox()
    items = answer("t1", *["a "] * MAX_PARTIALS)
    put_all(mailbox, items)
    assert drain(mailbox) == items


# contract: LIVE-25
def test_many_pieces_are_merged_and_the_latest_wins() -> None:
    mailbox = Mailbox()
    items = answer("t1", *[f"{n} " for n in range(1000)])
    mailbox.put(items[0], 0.0)
    mailbox.put(Relay("first"), 0.0)
    put_all(mailbox, items[1:])
    mailbox.put(Relay("last"), 0.0)
    taken = drain(mailbox)
    assert len(taken) == MAX_PARTIALS + 2
    assert taken[1] == Relay("first")
    assert taken[-1] == Relay("last")
    newest = taken[-2]
    assert isinstance(newest, Partial)
    assert newest.transcript is not None
    assert items[-1].transcript is not None
    assert newest.transcript.text == items[-1].transcript.text


# contract: LIVE-25
def test_the_complete_transcription_takes_its_many_pieces_away() -> None:
    mailbox = Mailbox()
    first = answer("t0", "before")
    put_all(mailbox, first + answer("t1", *["a "] * 100))
    mailbox.put(stored(1, "t1"), 0.0)
    later = answer("t2", "after")
    put_all(mailbox, later)
    assert drain(mailbox) == [*first, stored(1, "t1"), *later]


# contract: LIVE-25
@pytest.mark.parametrize("pieces", [20, 100])
def test_an_hour_of_talk_without_a_listener_stays_small_and_overruns_nothing(pieces: int) -> None:
    mailbox = Mailbox()
    for n in range(1, 6000 // pieces * 2):
        put_all(mailbox, answer(f"t{n}", *["a "] * pieces))
        mailbox.put(stored(n, f"t{n}"), 0.0)
    seen = drain(mailbox)
    assert sum(isinstance(item, Partial) for item in seen) <= MAX_PARTIALS
    assert sum(isinstance(item, Stored) for item in seen) == n


# contract: LIVE-25
@given(st.lists(st.tuples(st.sampled_from(["piece", "piece", "whole", "other", "take"]), st.integers(1, 40)), max_size=30))
def test_the_text_only_grows_and_ends_with_all_of_it(steps: list[tuple[str, int]]) -> None:
    mailbox, taken, seqs = Mailbox(), list[MailboxItem](), count(1)
    ids = count(1)
    builder = TranscriptBuilder(agent="agent", invocation_id="i", new_id=lambda: f"t{next(ids)}", wall=lambda: 1.0)
    said: dict[str, str] = {}

    def put(role: str, words: str | None) -> None:
        built = builder.feed(Transcript("user" if role == "user" else "model", words), 1) if words else builder.turn_complete()
        for event, update in built:
            assert event.transcription is not None
            if update is not None:
                said[event.id] = update.text
                mailbox.put(Partial(event, update), 0.0)
            else:
                mailbox.put(Stored(Event(author="agent", id=event.id, seq=next(seqs), timestamp=1.0)), 0.0)

    for step, amount in steps:
        for n in range(amount):
            if step == "piece":
                put("user" if amount % 2 else "model", f"{n} ")
            elif step == "whole":
                put("", None)
            elif step == "other":
                mailbox.put(Relay("x"), 0.0)
            elif (item := mailbox.take(0.0)) is not None:
                taken.append(item)
    taken += drain(mailbox)
    check_texts(taken, said)


def check_texts(taken: list[MailboxItem], said: dict[str, str]) -> None:
    shown: dict[str, str] = {}
    joined: dict[str, str] = {}
    complete: list[str] = []
    for item in taken:
        if isinstance(item, Partial):
            assert item.transcript is not None
            assert item.event.transcription is not None
            name = item.transcript.item
            assert name not in complete, "no piece after the whole"
            assert item.transcript.text.startswith(shown.get(name, "")), "the text goes backwards"
            shown[name] = item.transcript.text
            joined[name] = joined.get(name, "") + str(item.event.transcription.text)
            assert joined[name] == shown[name], "the pieces do not add up to the text"
        elif isinstance(item, Stored):
            complete.append(item.event.id)
    for name, text in said.items():
        assert name in complete or shown[name] == text


# Stored events.


# contract: LIVE-25
def test_stored_events_beyond_the_bound_are_read_back() -> None:
    mailbox = Mailbox()
    events = [stored(seq) for seq in range(1, MAX_STORED + 501)]
    put_all(mailbox, events)
    mailbox.put(Relay("x"), 0.0)
    assert len(mailbox) == MAX_STORED + 2
    assert drain(mailbox) == [*events[:MAX_STORED], ReadBack(MAX_STORED + 1, MAX_STORED + 500), Relay("x")]
    put_all(mailbox, events[:1])
    assert drain(mailbox) == events[:1]


# contract: LIVE-25
def test_a_range_never_covers_an_event_that_was_kept_after_it() -> None:
    mailbox = Mailbox()
    events = [stored(seq) for seq in range(1, MAX_STORED + 14)]
    put_all(mailbox, events[: MAX_STORED + 1])
    assert [mailbox.take(0.0) for _ in range(10)] == events[:10]
    put_all(mailbox, events[MAX_STORED + 1 :])
    kept = events[MAX_STORED + 1 : MAX_STORED + 11]
    expected = [*events[10:MAX_STORED], ReadBack(MAX_STORED + 1, MAX_STORED + 1), *kept, ReadBack(MAX_STORED + 12, MAX_STORED + 13)]
    assert drain(mailbox) == expected
    put_all(mailbox, events[: MAX_STORED + 1])
    assert drain(mailbox)[-1] == ReadBack(MAX_STORED + 1, MAX_STORED + 1)


# contract: LIVE-25
def test_no_piece_comes_after_a_whole_that_is_read_back() -> None:
    mailbox = Mailbox()
    put_all(mailbox, [stored(seq) for seq in range(1, MAX_STORED + 2)])
    put_all(mailbox, answer("t1", "a", "b"))
    mailbox.put(stored(MAX_STORED + 2, "t1"), 0.0)
    assert drain(mailbox)[MAX_STORED:] == [ReadBack(MAX_STORED + 1, MAX_STORED + 2)]


# contract: LIVE-25
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 1200)), max_size=6))
def test_every_stored_event_is_delivered_or_read_back_once_and_in_order(steps: list[tuple[bool, int]]) -> None:
    mailbox, seqs, seen = Mailbox(), count(1), list[int]()
    last = 0

    def see(item: MailboxItem | None) -> None:
        if isinstance(item, Stored):
            seen.append(item.event.seq)
        elif isinstance(item, ReadBack):
            seen.extend(range(item.first_seq, item.last_seq + 1))

    for putting, amount in steps:
        for _ in range(amount):
            if putting:
                last = next(seqs)
                mailbox.put(Stored(Event(author="agent", id=f"e{last}", seq=last, timestamp=1.0)), 0.0)
            else:
                see(mailbox.take(0.0))
    assert len(mailbox) <= 2 * MAX_STORED
    for item in drain(mailbox):
        see(item)
    assert seen == list(range(1, last + 1))


# Everything else.


# contract: LIVE-25
def test_a_listener_that_takes_nothing_is_told_so_and_loses_nothing_stored() -> None:
    mailbox = Mailbox()
    mailbox.put(stored(1), 0.0)
    for n in range(MAX_CONTROL):
        mailbox.put(Relay(str(n)), 0.0)
    put_all(mailbox, answer("t1", "a"))
    for n in range(3 * MAX_CONTROL):
        mailbox.put(Relay(str(n)), 0.0)
    mailbox.put(stored(2), 0.0)
    mailbox.put(seconds(0, 1)[0], 0.0)
    assert len(mailbox) == 4
    assert mailbox.take(0.0) == stored(1)
    with pytest.raises(SlowConsumer, match="4096"):
        mailbox.take(0.0)
    mailbox.put(Relay("again"), 0.0)
    assert drain(mailbox) == [stored(2), *seconds(0, 1), Relay("again")]


# contract: LIVE-25
def test_exactly_the_bound_of_other_items_is_kept() -> None:
    mailbox = Mailbox()
    items: list[LiveItem] = [Relay(str(n)) for n in range(MAX_CONTROL)]
    put_all(mailbox, items)
    assert drain(mailbox) == items
    put_all(mailbox, items)
    assert drain(mailbox) == items


def test_pieces_that_are_no_transcript_are_never_merged() -> None:
    mailbox = Mailbox()
    growing = Event(author="agent", partial=True, content=model_content([Part(function_call=FunctionCall(id="c", name="f"))]))
    items: list[LiveItem] = [Partial(growing)] * (MAX_PARTIALS + 10)
    put_all(mailbox, items)
    assert drain(mailbox) == items


# contract: LIVE-25
def test_an_interruption_stops_audio_even_while_the_listener_is_overrun() -> None:
    mailbox = Mailbox()
    for n in range(MAX_CONTROL + 1):
        mailbox.put(Relay(str(n)), 0.0)
    put_all(mailbox, seconds(0, 5))
    mailbox.put(ResponseInterrupted(1, "cancel"), 0.0)
    assert mailbox.waiting_samples == 0
