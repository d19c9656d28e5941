"""The way out to Gemini Live: every send of a session, over whatever socket it has at the moment, or into the outbox while it has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from live_gateway.content import Content, FunctionResponse
from live_gateway.errors import ModelError
from live_gateway.models.gemini_outbox import Mark, Message, Outbox, Streamed
from live_gateway.models.gemini_profile import GeminiProfile
from live_gateway.models.gemini_socket import Link, LinkLost
from live_gateway.models.gemini_traffic import Traffic
from live_gateway.models.gemini_wire import (
    AUDIO_END,
    activity_message,
    audio_message,
    content_messages,
    image_message,
    told_answers,
    tool_response_message,
)
from live_gateway.models.live import Activity
from live_gateway.models.tool_updates import update_in_words


class Sender:
    """Sends for one session. `link` is what it sends on; while it is None everything but images is kept.

    over: raise it instead of sending, once it is set. asked: called when the model comes to owe an answer.
    """

    def __init__(
        self, profile: GeminiProfile, traffic: Traffic, outbox: Outbox, now: Callable[[], float], asked: Callable[[], None]
    ) -> None:
        self.link: Link | None = None
        self.over: ModelError | None = None
        self._profile = profile
        self._traffic = traffic
        self._outbox = outbox
        self._now = now
        self._asked = asked

    async def audio(self, pcm: bytes) -> None:
        """Microphone audio; in a gap it is kept, at most two seconds of it."""
        if self._outbox.opened(pcm):
            await self._stream(pcm)

    def take_audio(self, pcm: bytes) -> bool:
        """Send microphone audio, if nobody has to wait for it; False, and nothing was done, otherwise."""
        if self.link is None or self.over is not None or not self._outbox.open or not self.link.take(audio_message(pcm)):
            return False
        self._outbox.count()
        return True

    async def image(self, data: bytes, mime_type: str) -> None:
        """An image. One that falls into a gap is out of date after it, and is left out. Raises `ModelError` for another kind."""
        frame = image_message(data, mime_type)
        self._check()
        if self.link is not None:
            await self._send(self.link, frame)

    async def content(self, content: Content) -> None:
        """A message of the user; never lost. Raises `ModelError` if it cannot be sent at all."""
        content_messages(content, self._profile)
        await self._deliver(Message(content=content))

    async def responses(self, responses: Sequence[FunctionResponse]) -> None:
        """Answers to calls; never lost. Raises `ModelError` if one cannot be sent at all."""
        tool_response_message(responses, self._profile)
        await self._deliver(Message(responses=tuple(responses)))

    async def update(self, response: FunctionResponse) -> None:
        """One more answer to a call that has one; never lost. Raises `ModelError` if it cannot be sent at all."""
        tool_response_message((response,), self._profile)
        await self._deliver(Message(responses=(response,), update=True))

    async def activity(self, activity: Activity) -> None:
        """Push to talk; never lost. What the microphone caught just before it was pressed follows the mark."""
        before = self._outbox.activity(activity)
        await self._stream(Mark(activity))
        for pcm in before:
            await self._stream(pcm)

    async def end_audio(self) -> None:
        """The microphone is off."""
        await self._stream(Mark(None))

    async def begin(self, link: Link, history: Sequence[bytes]) -> None:
        """Everything that goes before new input: the history, what waits, in order; then new input finds the link.

        If the link is lost over it, whoever receives will notice by itself, after what the model had still sent.
        """
        self._outbox.connected()
        for frame in history:
            await self._send(link, frame)
        while True:
            if (message := self._outbox.next_message()) is not None:
                await self._send_message(link, message)
            elif (entry := self._outbox.next_streamed()) is None:
                break
            elif not await self._send(link, self._frame_of(entry)):
                self._outbox.put_back(entry)
                break
        self.link = link

    def _check(self) -> None:
        if self.over is not None:
            raise self.over

    async def _deliver(self, message: Message) -> None:
        self._check()
        if self.link is None:
            self._outbox.wait(message)
        else:
            await self._send_message(self.link, message)

    async def _stream(self, entry: Streamed) -> None:
        self._check()
        link = self.link
        if link is None or not await self._send(link, self._frame_of(entry)):
            self._outbox.keep(entry)

    async def _send_message(self, link: Link, message: Message) -> None:
        """Send a message and remember it; if the link is lost over it, the outbox has it."""
        frames = self._frames_of(message)
        if not frames:
            return
        self._outbox.sent(message, len(frames))
        if message.content is not None:
            self._traffic.asked(self._now())
        else:
            silent = self._profile.scheduling and all(_is_silent(response) for response in message.responses)
            self._traffic.answered([response.id or "" for response in message.responses], self._now(), silent=silent)
        self._asked()
        for frame in frames:
            try:
                await link.send(frame)
            except LinkLost:
                return

    def _frames_of(self, message: Message) -> list[bytes]:
        if message.content is not None:
            return content_messages(message.content, self._profile)
        known = self._traffic.knows(response.id or "" for response in message.responses)
        if message.update and not (known and self._profile.updates):
            words = [update_in_words(response) for response in message.responses]
            return [frame for content in words if content is not None for frame in content_messages(content, self._profile)]
        if known:
            return [tool_response_message(message.responses, self._profile)]
        # This model never made these calls: it was told of them with the history.
        return content_messages(told_answers(message.responses), self._profile)

    def _frame_of(self, entry: Streamed) -> bytes:
        if isinstance(entry, bytes):
            return audio_message(entry)
        if entry.activity is None:
            return AUDIO_END
        self._traffic.activity("start" if entry.activity is Activity.START else "end", self._now())
        self._asked()
        return activity_message(entry.activity)

    async def _send(self, link: Link, frame: bytes) -> bool:
        """Send a frame. False if the link is lost; whoever receives will notice by itself."""
        self._outbox.count()
        try:
            await link.send(frame)
        except LinkLost:
            return False
        return True


def _is_silent(response: FunctionResponse) -> bool:
    return response.scheduling is not None and response.scheduling.value == "SILENT"
