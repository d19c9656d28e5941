"""What is to be sent to Gemini Live and what was sent but may be lost: the memory that makes a reconnect lose nothing. Pure.

Messages (content, answers to calls) are kept until there is a sign that the model has them: it began to answer after them, or it said so.
What had no such sign when the connection was lost is sent again, once for each connection. Audio is kept for two seconds, the oldest
dropped and counted; activity marks keep their place among the audio and are never dropped, and speech that had begun before the
connection was lost is begun again. After a reconnect the messages go first, in their order, then audio and marks in theirs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from live_gateway.content import Content, FunctionResponse
from live_gateway.errors import ModelError
from live_gateway.models.live import INPUT_HZ, Activity

MAX_MESSAGES: Final = 256
MAX_MARKS: Final = 64
MAX_AUDIO_BYTES: Final = 2 * 2 * INPUT_HZ
PRE_ROLL_BYTES: Final = 2 * INPUT_HZ * 300 // 1000
"""Before push to talk is pressed the microphone may be on already; that much of it is sent after the mark, so no first syllable is cut."""
MAX_TIMES: Final = 8
"""How often one message is sent again before it is held to be what breaks the connection."""


@dataclass(slots=True, eq=False)
class Message:
    """A message of the user, or answers to calls. update: one more answer to a call that has one. begun: the model gave something after
    it. times: how often it was sent."""

    content: Content | None = None
    responses: tuple[FunctionResponse, ...] = ()
    update: bool = False
    begun: bool = False
    times: int = 0
    index: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that has its place among the audio: an activity mark, or the end of the microphone (None)."""

    activity: Activity | None


Streamed: TypeAlias = bytes | Mark


@dataclass(slots=True)
class Outbox:
    """One session's outbox, over all of its connections. manual: push to talk."""

    manual: bool = False
    _waiting: deque[Message] = field(default_factory=deque)
    _unsure: deque[Message] = field(default_factory=deque)
    _stream: deque[Streamed] = field(default_factory=deque)
    _audio_bytes: int = 0
    _dropped_bytes: int = 0
    _speaking: bool = False
    _pre_roll: deque[bytes] = field(default_factory=deque)
    _pre_roll_bytes: int = 0
    _index: int = 0

    @property
    def has_messages(self) -> bool:
        """Whether messages wait."""
        return bool(self._waiting)

    @property
    def open(self) -> bool:
        """Whether audio may be sent now: before push to talk is pressed it may not."""
        return not self.manual or self._speaking

    def connected(self) -> None:
        """A new connection: its messages are counted anew. The set-up was the first."""
        self._index = 0

    def count(self, frames: int = 1) -> None:
        """So many more messages go out on this connection."""
        self._index += frames

    def wait(self, message: Message) -> None:
        """Keep a message for the next connection. Raises `ModelError` when so many wait that this one is not taken."""
        if len(self._waiting) >= MAX_MESSAGES:
            raise ModelError(f"{MAX_MESSAGES} messages already wait for the connection to the model")
        self._waiting.append(message)

    def sent(self, message: Message, frames: int) -> None:
        """The message goes out, in so many frames; keep it until there is a sign that it arrived."""
        self.count(frames)
        message.times += 1
        message.begun = False
        message.index = self._index
        self._unsure.append(message)
        if len(self._unsure) > MAX_MESSAGES:
            self._unsure.popleft()

    def answer_began(self) -> None:
        """The model gave something: it has all that was sent before."""
        for message in self._unsure:
            message.begun = True

    def handle_given(self, consumed: int | None) -> None:
        """The model's state can be resumed: what it has begun to answer is part of it, as is what it says to have taken."""
        self._unsure = deque(message for message in self._unsure if not message.begun and (consumed is None or message.index > consumed))

    def lost(self, *, stalled: bool) -> None:
        """The connection is gone: what may be lost with it waits again, before what waits already. stalled: it did not answer, so what
        was sent to it twice in vain is not sent a third time."""
        most = 2 if stalled else MAX_TIMES
        again = [message for message in self._unsure if not message.begun and message.times < most]
        self._unsure.clear()
        self._waiting.extendleft(reversed(again))
        if self._speaking and not any(isinstance(entry, Mark) for entry in self._stream):
            self._stream.appendleft(Mark(Activity.START))

    def next_message(self) -> Message | None:
        """Take the oldest message that waits."""
        return self._waiting.popleft() if self._waiting else None

    def next_streamed(self) -> Streamed | None:
        """Take the oldest audio or mark that waits."""
        if not self._stream:
            return None
        entry = self._stream.popleft()
        if isinstance(entry, bytes):
            self._audio_bytes -= len(entry)
        return entry

    def put_back(self, entry: Streamed) -> None:
        """It was not sent after all."""
        self._stream.appendleft(entry)
        if isinstance(entry, bytes):
            self._audio_bytes += len(entry)

    def keep(self, entry: Streamed) -> None:
        """Keep audio or a mark for the next connection. More than two seconds of audio: the oldest is dropped."""
        if isinstance(entry, Mark) and sum(isinstance(kept, Mark) for kept in self._stream) >= MAX_MARKS:
            raise ModelError(f"{MAX_MARKS} activity marks already wait for the connection to the model")
        self._stream.append(entry)
        if isinstance(entry, bytes):
            self._audio_bytes += len(entry)
        while self._audio_bytes > MAX_AUDIO_BYTES:
            self._drop_oldest_audio()

    def take_dropped_ms(self) -> int:
        """How much audio was dropped since the last call, in ms."""
        dropped, self._dropped_bytes = self._dropped_bytes, 0
        return dropped * 1000 // (2 * INPUT_HZ)

    def opened(self, pcm: bytes) -> bool:
        """Whether audio may be sent now; where it may not, the newest of it is kept."""
        if self.open:
            return True
        self._pre_roll.append(pcm)
        self._pre_roll_bytes += len(pcm)
        while self._pre_roll_bytes - len(self._pre_roll[0]) >= PRE_ROLL_BYTES:
            self._pre_roll_bytes -= len(self._pre_roll.popleft())
        return False

    def activity(self, activity: Activity) -> Iterable[bytes]:
        """The user begins or ends to speak; the audio that belongs behind the mark."""
        self._speaking = activity is Activity.START
        kept = tuple(self._pre_roll) if self._speaking else ()
        self._pre_roll.clear()
        self._pre_roll_bytes = 0
        return kept

    def without_waiting(self, contents: Sequence[Content]) -> list[Content]:
        """A history without the messages that wait and will be sent after it: each is taken out where it stands last."""
        kept = list(contents)
        for message in reversed(self._waiting):
            if message.content is None:
                continue
            for index in range(len(kept) - 1, -1, -1):
                if kept[index].parts == message.content.parts:
                    del kept[index]
                    break
        return kept

    def _drop_oldest_audio(self) -> None:
        for index, entry in enumerate(self._stream):
            if isinstance(entry, bytes):
                del self._stream[index]
                self._audio_bytes -= len(entry)
                self._dropped_bytes += len(entry)
                return
