"""Hand over the final result of a long-running tool, when it is there."""

import asyncio
from dataclasses import replace

from kitchen import agent

from live_gateway import Content, KeywordModel, Part, Runner, user_content
from live_gateway.content import FunctionResponse


async def finish(runner: Runner, ticket: str) -> None:
    """The bread is ready: answer the call that has waited for it, and let the agent say so."""
    result = FunctionResponse(id=ticket, name="bake", response={"summary": "The bread is ready."})
    message = Content(role="user", parts=[Part(function_response=result)])
    async with runner.run(user_id="me", session_id="first", message=message) as events:
        async for event in events:
            if event.text:
                print(f"{event.author}: {event.text}")


async def main() -> None:
    runner = Runner.in_memory("kitchen", replace(agent, model=KeywordModel()))
    ticket = ""
    async with runner.run(user_id="me", session_id="first", message=user_content("Please bake some bread.")) as events:
        async for event in events:
            ticket = event.long_running_tool_ids[0] if event.long_running_tool_ids else ticket
            if event.text:
                print(f"{event.author}: {event.text}")
    await finish(runner, ticket)


if __name__ == "__main__":
    asyncio.run(main())
