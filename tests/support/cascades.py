from __future__ import annotations

from live_gateway.models.base import Model
from live_gateway.models.cascade import CascadeLimits, CascadeLiveModel
from tests.support.fake_voice import FakeDetector, FakeRecogniser, FakeSynthesiser, silence

PAUSE = silence(800)


PATIENT = CascadeLimits(room_s=60)


def cascade(
    model: Model, *, stt: FakeRecogniser | None = None, tts: FakeSynthesiser | None = None, limits: CascadeLimits | None = None
) -> CascadeLiveModel:
    return CascadeLiveModel(
        vad=FakeDetector, stt=stt or FakeRecogniser(), tts=tts or FakeSynthesiser(), model=model, limits=limits or PATIENT
    )
