"""Runs a hook over all plugins. One generic loop for every hook."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from live_gateway.agents.context import InvocationContext
from live_gateway.cancellation import foreign_code
from live_gateway.errors import ConfigurationError, PluginError
from live_gateway.events import Event, replace
from live_gateway.plugins.base import Plugin


class PluginChain:
    """The plugins of a runner, in order. Raises `ConfigurationError` for two of one name, or something that is no plugin."""

    def __init__(self, plugins: Sequence[Plugin] = ()) -> None:
        names: set[str] = set()
        for plugin in plugins:
            if not isinstance(plugin, Plugin):
                raise ConfigurationError(f"cannot register {plugin!r}: it is no Plugin")
            if plugin.name in names:
                raise ConfigurationError(f"plugin with name {plugin.name!r} already registered")
            names.add(plugin.name)
        self._plugins = tuple(plugins)
        self._by_hook: dict[str, tuple[Plugin, ...]] = {
            hook: tuple(plugin for plugin in self._plugins if getattr(type(plugin), hook) is not getattr(Plugin, hook))
            for hook in vars(Plugin)
            if not hook.startswith("_")
        }

    def has(self, hook: str) -> bool:
        """Whether any plugin overrides the hook; the live path skips the rest where none does."""
        return bool(self._by_hook[hook])

    async def first(self, hook: str, *args: Any) -> Any:
        """Call the hook of every plugin that has it until one answers. Raises `PluginError`."""
        for plugin in self._by_hook[hook]:
            try:
                with foreign_code(hook):
                    answer = await getattr(plugin, hook)(*args)
            except Exception as error:
                raise PluginError(plugin.name, hook, error) from error
            if answer is not None:
                return answer
        return None

    async def on_event(self, invocation: InvocationContext, event: Event) -> Event:
        """The event as the plugins want it: id, invocation, author and the compaction record stay what they were. Raises `PluginError`."""
        if not self._by_hook["on_event"]:
            return event
        for plugin in self._by_hook["on_event"]:
            try:
                with foreign_code("on_event"):
                    answer = await plugin.on_event(invocation, event)
                if answer is not None:
                    return _legal_replacement(event, answer)
            except Exception as error:
                raise PluginError(plugin.name, "on_event", error) from error
        return event

    async def after_run(self, invocation: InvocationContext) -> list[PluginError]:
        """Call every plugin's `after_run`, also when another's raised or was cancelled. The caller decides what to do with the errors."""
        errors: list[PluginError] = []
        cancelled: asyncio.CancelledError | None = None
        for plugin in self._by_hook["after_run"]:
            try:
                with foreign_code("after_run"):
                    await plugin.after_run(invocation)
            except asyncio.CancelledError as error:
                cancelled = error
            except Exception as error:
                failure = PluginError(plugin.name, "after_run", error)
                failure.__cause__ = error
                errors.append(failure)
        if cancelled is not None:
            raise cancelled
        return errors


def _legal_replacement(event: Event, answer: Event) -> Event:
    if not isinstance(answer, Event):
        raise TypeError(f"on_event gives an Event or None, not a {type(answer).__name__}")
    author = answer.author if answer.author.strip() else event.author
    actions = msgspec.structs.replace(answer.actions, compaction=event.actions.compaction)
    return replace(
        answer,
        id=event.id,
        invocation_id=event.invocation_id,
        author=author,
        partial=event.partial,
        seq=event.seq,
        actions=actions,
    )
