"""The live model that composes a voice with a text model."""

from __future__ import annotations

from collections.abc import Callable

from live_gateway.clock import Clock, SystemClock
from live_gateway.models.base import Model
from live_gateway.models.cascade.connection import CascadeConnection
from live_gateway.models.cascade.limits import CascadeLimits
from live_gateway.models.live import LiveSetup
from live_gateway.voice.base import SpeechToText, TextToSpeech, VoiceActivityDetector
from live_gateway.voice.local import LocalVoice
from live_gateway.voice.workers import Workers


class CascadeLiveModel:
    """Speech is found (`vad`), recognised (`stt`), answered by a text model (`model`) and spoken (`tts`).

    vad: makes a detector for each connection. Parts that are not given are this machine's embedded ones (`LocalVoice`), loaded in the
    background from `start` on, or when the first connection needs them. All connections share two threads for the work, and one for `vad`.
    """

    def __init__(
        self,
        *,
        model: Model,
        vad: Callable[[], VoiceActivityDetector] | None = None,
        stt: SpeechToText | None = None,
        tts: TextToSpeech | None = None,
        limits: CascadeLimits | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._model = model
        self._voice = LocalVoice(vad=vad, stt=stt, tts=tts) if vad or stt or tts else LocalVoice.shared()
        self._limits = limits or CascadeLimits()
        self._clock = clock or SystemClock()
        self._workers = Workers()

    @classmethod
    def local(cls, model: Model) -> CascadeLiveModel:
        """A text model with the voice of this machine; the voice begins to load now, in the background."""
        live = cls(model=model)
        live.start()
        return live

    @property
    def name(self) -> str:
        """`local-voice/` and the name of the text model."""
        return f"local-voice/{self._model.name}"

    def start(self) -> None:
        """Begin to load the voice, in a thread of its own; returns at once. Where it cannot be loaded, `connect` says why."""
        self._voice.start()

    def connect(self, setup: LiveSetup) -> CascadeConnection:
        """Open a connection. Entering waits for the voice to be loaded (the setup's `notify` then gets `loading_voice`).

        Raises `ModelUnavailable` with the command to run where a part is missing, `SetupTimeout` when loading takes too long.
        """
        return CascadeConnection(setup, self._model, self._voice, self._workers, self._limits, self._clock)

    def close(self) -> None:
        """Let the threads end. No connection can be opened afterwards."""
        self._workers.close()
