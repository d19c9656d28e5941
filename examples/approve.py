"""Run an agent that asks first, and decide about what it asks."""

import asyncio
from dataclasses import replace

from bank import agent

from live_gateway import Content, KeywordModel, Part, Runner, user_content
from live_gateway.confirmation import CONFIRM
from live_gateway.content import FunctionCall, FunctionResponse


async def tell(runner: Runner, message: Content) -> list[FunctionCall]:
    """Say something, print what the agent says, and return what it asks."""
    questions: list[FunctionCall] = []
    async with runner.run(user_id="me", session_id="first", message=message) as events:
        async for event in events:
            questions += [call for call in event.function_calls if call.name == CONFIRM]
            if event.text:
                print(f"{event.author}: {event.text}")
    return questions


def decision(question: FunctionCall, confirmed: bool) -> Content:
    """The answer to a question: it goes to the call that asks, not to the call that it is about."""
    answer = FunctionResponse(id=question.id, name=CONFIRM, response={"confirmed": confirmed})
    return Content(role="user", parts=[Part(function_response=answer)])


async def main() -> None:
    runner = Runner.in_memory("bank", replace(agent, model=KeywordModel()))
    for question in await tell(runner, user_content("Send 500 euros to Anna.")):
        original = (question.args or {})["originalFunctionCall"]
        print(f"asked: {original['name']} {original['args']}")
        await tell(runner, decision(question, confirmed=True))


if __name__ == "__main__":
    asyncio.run(main())
