"""A recogniser of your own: any program that reads a WAV file from standard input and prints the words.

Set RECOGNISER to its command and serve this with `live-gateway serve examples/own_recogniser.py`.
"""

import io
import os
import shlex
import subprocess
import wave
from collections.abc import Sequence

from live_gateway import CascadeLiveModel, KeywordModel, LlmAgent
from live_gateway.demo import get_time, get_weather
from live_gateway.voice.base import INPUT_HZ


class CommandRecogniser:
    """Implements `SpeechToText`. Called in worker threads, by several at once, so it may block and must keep nothing between calls."""

    def __init__(self, command: Sequence[str], timeout_s: float = 20.0) -> None:
        self._command = tuple(command)
        self._timeout_s = timeout_s

    def transcribe(self, pcm: bytes) -> str:
        """The words in this audio: int16 little endian mono at 16 kHz."""
        sound = io.BytesIO()
        with wave.open(sound, "wb") as file:
            file.setframerate(INPUT_HZ)
            file.setnchannels(1)
            file.setsampwidth(2)
            file.writeframes(pcm)
        done = subprocess.run(self._command, input=sound.getvalue(), capture_output=True, timeout=self._timeout_s, check=True)
        return done.stdout.decode("utf-8", "replace").strip()


recogniser = CommandRecogniser(shlex.split(os.environ.get("RECOGNISER", "my-recogniser")))

agent = LlmAgent(
    name="listener",
    tools=[get_time, get_weather],
    live_model=CascadeLiveModel(model=KeywordModel(), stt=recogniser),
)
