"""Any sound file in, int16 mono at 16 kHz out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import soundfile

from live_gateway.cli import talk_audio
from live_gateway.cli.problems import CommandError
from live_gateway.cli.talk_audio import last_sound_s, read_clip, write_answer


def tone(hz: int, seconds: float = 0.5) -> npt.NDArray[np.float64]:
    wave: npt.NDArray[np.float64] = 0.5 * np.sin(2 * np.pi * 440 * np.arange(int(hz * seconds)) / hz)
    return wave


def samples(pcm: bytes) -> npt.NDArray[np.float64]:
    return np.frombuffer(pcm, "<i2") / 32_768


@pytest.mark.parametrize("hz", [8_000, 16_000, 22_050, 44_100, 48_000, 96_000])
@pytest.mark.parametrize("channels", [1, 2, 6])
def test_rates_and_channels(tmp_path: Path, hz: int, channels: int) -> None:
    soundfile.write(tmp_path / "a.wav", np.repeat(tone(hz)[:, None], channels, axis=1), hz)
    heard = samples(read_clip(tmp_path / "a.wav"))
    assert abs(len(heard) - 8_000) <= 1
    middle = slice(1_000, 7_000)
    assert np.max(np.abs(heard[middle] - tone(16_000)[middle])) < 0.01


@pytest.mark.parametrize(("name", "subtype"), [("a.wav", "FLOAT"), ("a.wav", "PCM_U8"), ("a.flac", "PCM_24"), ("a.ogg", "VORBIS")])
def test_formats(tmp_path: Path, name: str, subtype: str) -> None:
    soundfile.write(tmp_path / name, tone(16_000), 16_000, subtype=subtype)
    assert abs(len(read_clip(tmp_path / name)) - 16_000) <= 2


def test_samples_beyond_full_scale_are_cut_and_do_not_wrap(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "loud.wav", 4 * tone(16_000), 16_000, subtype="FLOAT")
    heard = np.frombuffer(read_clip(tmp_path / "loud.wav"), "<i2")
    assert heard.max() == 32_767
    assert heard.min() == -32_768
    assert np.array_equal(np.sign(heard[100:200]), np.sign(np.rint(tone(16_000)[100:200] * 32_767)))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("words.wav", b"these are words, not sound, and many of them", "is not a sound file that can be read: "),
        ("empty.wav", b"", "is not a sound file that can be read: "),
        ("bare.raw", b"\0" * 64, "it has no header that says what it holds"),
    ],
)
def test_a_file_that_is_not_audio(tmp_path: Path, name: str, content: bytes, expected: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CommandError, match=expected):
        read_clip(tmp_path / name)


def test_no_file_a_directory_no_samples_and_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="there is no file"):
        read_clip(tmp_path / "missing.wav")
    with pytest.raises(CommandError, match="is not a file"):
        read_clip(tmp_path)
    soundfile.write(tmp_path / "none.wav", np.zeros(0), 16_000)
    with pytest.raises(CommandError, match="holds no sound"):
        read_clip(tmp_path / "none.wav")
    soundfile.write(tmp_path / "long.wav", np.zeros(2 * 8_000), 8_000)
    monkeypatch.setattr(talk_audio, "LONGEST_S", 1)
    with pytest.raises(CommandError, match="minutes long"):
        read_clip(tmp_path / "long.wav")


def test_the_answer_is_a_plain_wav_file(tmp_path: Path) -> None:
    pcm = np.arange(-500, 500, dtype="<i2").tobytes()
    write_answer(tmp_path / "answer.wav", pcm, 24_000)
    info = soundfile.info(tmp_path / "answer.wav")
    assert (info.samplerate, info.channels, info.subtype, info.frames) == (24_000, 1, "PCM_16", 1_000)
    assert soundfile.read(tmp_path / "answer.wav", dtype="int16")[0].tobytes() == pcm
    with pytest.raises(CommandError, match="cannot be written"):
        write_answer(tmp_path / "nowhere" / "answer.wav", pcm, 24_000)


def test_where_the_last_sound_ends() -> None:
    sound = (tone(16_000) * 20_000).astype("<i2").tobytes()
    assert last_sound_s(bytes(32_000) + sound + bytes(20_000), 16_000) == pytest.approx(1.5, abs=0.02)
    assert last_sound_s(sound, 16_000) == pytest.approx(0.5, abs=0.02)
    assert last_sound_s(bytes(32_000), 16_000) == 0.0
    assert last_sound_s(b"", 16_000) == 0.0
