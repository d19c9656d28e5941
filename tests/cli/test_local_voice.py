"""What an agent without a live model of its own gets from the gateway."""

from __future__ import annotations

import sys

import pytest

from live_gateway.agents.llm import LlmAgent
from live_gateway.agents.sequential import SequentialAgent
from live_gateway.cli import local_voice
from live_gateway.cli.live_model import with_live_model
from live_gateway.cli.local_voice import TextOnlyModel, how_to_install, missing_voice, needs_voice, with_live_models
from live_gateway.cli.text_model import with_text_models
from live_gateway.content import user_content
from live_gateway.models.cascade import CascadeLiveModel
from live_gateway.models.keyword import KeywordModel
from live_gateway.models.live import AudioOut, ConnectionNotice, LiveMessage, LiveSetup, TextOut, Transcript, TurnComplete
from live_gateway.testing import ScriptedLiveModel, ScriptedModel
from live_gateway.voice.local import Availability

MISSING = Availability(("hibari-tts",), ('pip install "live-gateway[voice]"',))


def test_an_agent_with_a_live_model_keeps_it() -> None:
    model = ScriptedLiveModel([])
    agent = LlmAgent(name="own", live_model=model)
    assert not needs_voice(agent)
    assert with_live_models(agent, MISSING).live_model is model


def test_every_agent_of_a_tree_gets_one_and_the_given_tree_stays_as_it_was() -> None:
    child = LlmAgent(name="child", model=ScriptedModel([]))
    root = LlmAgent(name="root", live_model=ScriptedLiveModel([]), sub_agents=(child,))
    assert needs_voice(root)
    served = with_live_models(root, MISSING)
    assert isinstance(served.sub_agents[0], LlmAgent)
    assert isinstance(served.sub_agents[0].live_model, TextOnlyModel)
    assert served.sub_agents[0].model is child.model
    assert isinstance(served.model, KeywordModel)
    assert (root.model, child.live_model, root.sub_agents) == (None, None, (child,))


def test_with_the_voice_installed_the_agent_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    monkeypatch.setattr(CascadeLiveModel, "start", lambda model: started.append(model))
    served = with_live_models(LlmAgent(name="plain"), None)
    assert isinstance(served.live_model, CascadeLiveModel)
    assert started == [served.live_model]
    assert served.live_model.name == "local-voice/keyword"


def test_what_is_missing_is_said_with_the_command_for_this_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_voice, "available", lambda: MISSING)
    monkeypatch.setattr(sys, "executable", "/opt/my env/bin/python")
    assert missing_voice() is MISSING
    expected = 'the local voice is not installed (hibari-tts missing); run: "/opt/my env/bin/python" -m pip install "live-gateway[voice]"'
    assert how_to_install(MISSING) == expected
    monkeypatch.setattr(local_voice, "available", Availability)
    assert missing_voice() is None


@pytest.mark.parametrize("modality", ["TEXT", "AUDIO"])
async def test_without_the_voice_typed_messages_are_answered_in_writing(modality: str) -> None:
    model = TextOnlyModel(ScriptedModel(["Fine, thanks."]), str(MISSING))
    received: list[LiveMessage] = []
    setup = LiveSetup(modality="TEXT" if modality == "TEXT" else "AUDIO")
    async with model.connect(setup) as connection:
        await connection.send_audio(bytes(3200))
        await connection.send_content(user_content("how are you?"))
        while not isinstance(received[-1] if received else None, TurnComplete):
            message = await connection.receive()
            assert message is not None
            received.append(message)
    assert received[0] == ConnectionNotice("voice_missing", {"message": str(MISSING)})
    words = "".join(message.text for message in received if isinstance(message, TextOut | Transcript))
    assert words == "Fine, thanks."
    assert not any(isinstance(message, AudioOut) for message in received)


async def test_the_agents_of_a_sequence_get_what_the_machine_has() -> None:
    text, live = KeywordModel(), ScriptedLiveModel()
    first, second = LlmAgent(name="first"), LlmAgent(name="second", live_model=live, model=text)
    steps = SequentialAgent(name="steps", sub_agents=[first, second])
    assert needs_voice(steps)
    for served in (with_live_models(steps, MISSING), with_live_model(steps, live), with_text_models(steps, text)):
        a, b = served.sub_agents
        assert isinstance(a, LlmAgent)
        assert isinstance(b, LlmAgent)
        assert a.live_model is not None or a.model is text
        assert (b.live_model, b.model) == (live, text)
    assert (first.live_model, first.model) == (None, None)
