"""The runner: puts agent, session store and plugins together and runs them, as a stream (`run`) or live (`run_live`)."""

from live_gateway.runner.runner import Runner

__all__ = ["Runner"]
