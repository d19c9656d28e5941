"""Drive an agent from a program: two turns of one conversation, in writing."""

import asyncio
from dataclasses import replace

from rover import agent

from live_gateway import KeywordModel, Runner, user_content


async def main() -> None:
    runner = Runner.in_memory("rover", replace(agent, model=KeywordModel()))
    for text in ("Drive left two meters.", "What is your position?"):
        async with runner.run(user_id="me", session_id="first", message=user_content(text)) as events:
            async for event in events:
                if event.text:
                    print(f"{event.author}: {event.text}")


if __name__ == "__main__":
    asyncio.run(main())
