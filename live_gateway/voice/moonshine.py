"""Recognition by Moonshine tiny (English, MIT): its int8 weights on plain onnxruntime.

The weights come out of the package `moonshine-voice` 0.1.0, the last release that carries them. The package is never imported: its own
library is slower, and cuts the audio by itself. The files are the same in its wheels for all platforms, so any wheel's will do.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import platformdirs

from live_gateway.errors import ModelUnavailable
from live_gateway.voice.base import INPUT_HZ
from live_gateway.voice.runtime import INSTALL, inference_session, package_directory

PACKAGE = "moonshine_voice"
WEIGHTS = MappingProxyType(
    {
        "encoder_model.ort": "94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221",
        "decoder_model_merged.ort": "cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0",
        "tokenizer.bin": "6884b35fd6377d4c4d32336a0bc152f36b64d1e45b6503683cdc238250a8472d",
    }
)
"""Names and SHA-256 of the weight files."""
MAX_SECONDS = 30
"""Longer audio is refused: the network was made for less, and its cost grows with the square."""

_WHEELS = frozenset([("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"), ("win32", "AMD64")])
"""Platforms for which the extra `voice` names moonshine-voice; the same condition stands in the package's metadata."""
_START, _END = 1, 2
_TOKENS_PER_SECOND = 6.5
_PADDING = round(0.3 * INPUT_HZ)
_SPACE = "\u2581"


def unpack_directory() -> Path:
    """Where the weights are looked for when `moonshine-voice` itself cannot be installed on this platform."""
    return platformdirs.user_data_path("live-gateway", appauthor=False) / "voice"


def install_command() -> str:
    """The command that brings the weights to this platform: the extra where it names them, else any wheel that holds them, unpacked."""
    machine = platform.machine()
    if (sys.platform, machine) in _WHEELS:
        return INSTALL
    wheel = "--no-deps --only-binary=:all: --platform manylinux_2_34_x86_64"
    return f'python -m pip install {wheel} --target "{unpack_directory()}" moonshine-voice==0.1.0'


def weights_directory() -> Path | None:
    """The directory with all weight files: the installed package's, else the unpacked one; None when there is none."""
    installed = package_directory(PACKAGE)
    for root in (installed, unpack_directory() / PACKAGE):
        if root is not None and all((root / "assets" / "tiny-en" / name).is_file() for name in WEIGHTS):
            return root / "assets" / "tiny-en"
    return None


class MoonshineRecogniser:
    """Speech to text, in English. 30 ms of CPU per second of speech; several threads may call it.

    directory: where the weight files are; None looks for them. Raises `ModelUnavailable` when they are missing or not the right ones.
    """

    def __init__(self, directory: Path | None = None) -> None:
        directory = directory or weights_directory()
        if directory is None:
            raise ModelUnavailable(f"speech recognition needs the weights in moonshine-voice 0.1.0. Run: {install_command()}")
        _check(directory)
        self._encoder = inference_session(directory / "encoder_model.ort")
        self._decoder = inference_session(directory / "decoder_model_merged.ort")
        self._pieces = _read_pieces((directory / "tokenizer.bin").read_bytes())
        self._outputs = [output.name for output in self._decoder.get_outputs()]
        self._past = {entry.name: (1, entry.shape[1], 0, entry.shape[3]) for entry in self._decoder.get_inputs() if _is_past(entry.name)}

    def transcribe(self, pcm: bytes) -> str:
        if len(pcm) > 2 * MAX_SECONDS * INPUT_HZ:
            raise ValueError(f"at most {MAX_SECONDS} s of audio can be recognised at once")
        if len(pcm) < 2:
            return ""
        audio = np.pad(np.frombuffer(pcm, "<i2"), _PADDING).astype(np.float32)[None] / np.float32(32_768)
        pieces = self._decode(audio)
        return b"".join(pieces).replace(_SPACE.encode(), b" ").decode("utf-8", "ignore").strip()

    def _decode(self, audio: npt.NDArray[np.float32]) -> list[bytes]:
        """Greedy decoding. The bound on tokens ends a loop that the network may fall into."""
        mask = np.ones(audio.shape, dtype=np.int64)
        encoded = self._encoder.run(None, {"input_values": audio, "attention_mask": mask})[0]
        past: dict[str, Any] = {name: np.zeros(shape, dtype=np.float32) for name, shape in self._past.items()}
        token, pieces = _START, []
        for step in range(int(audio.shape[1] / INPUT_HZ * _TOKENS_PER_SECOND)):
            fed = {
                "input_ids": np.array([[token]], dtype=np.int64),
                "encoder_hidden_states": encoded,
                "encoder_attention_mask": mask,
                "use_cache_branch": np.array([step > 0]),
            }
            results = dict(zip(self._outputs, self._decoder.run(None, fed | past), strict=True))
            token = int(results["logits"][0, -1].argmax())
            if token == _END:
                break
            if token > _END:
                pieces.append(self._pieces[token])
            for name in past:  # what was made of the encoder's output is the same at every step
                if step == 0 or ".decoder." in name:
                    past[name] = results[name.replace("past_key_values", "present")]
        return pieces


def _is_past(name: str) -> bool:
    return name.startswith("past_key_values")


def _check(directory: Path) -> None:
    for name, expected in WEIGHTS.items():
        try:
            with (directory / name).open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ModelUnavailable(f"the weight file {name} cannot be read: {error.strerror}") from error
        if found != expected:
            raise ModelUnavailable(f"the weight file {name} is not the one of moonshine-voice 0.1.0; install it again: {install_command()}")


def _read_pieces(data: bytes) -> list[bytes]:
    """The tokenizer's file: pieces, each after its length; a length of 128 or more takes two bytes."""
    pieces, at = [], 0
    while at < len(data):
        length, at = data[at], at + 1
        if length >= 128:
            length, at = length + 128 * data[at] - 128, at + 1
        pieces.append(data[at : at + length])
        at += length
    return pieces
