"""Put a voice agent behind one WebSocket.

The names below are the public interface; everything else may move. Each is imported when it is first used, so `import live_gateway` costs
nothing. Test doubles are in `live_gateway.testing`, the demo agent is in `live_gateway.demo`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from live_gateway.agents.config import LiveRunConfig, RunConfig
    from live_gateway.agents.context import InvocationContext, ToolContext
    from live_gateway.agents.llm import LlmAgent
    from live_gateway.agents.sequential import SequentialAgent
    from live_gateway.content import Blob, Content, Part, user_content
    from live_gateway.errors import (
        ConfigurationError,
        DeliveredNotPersisted,
        DeliveryUnknown,
        GatewayError,
        InvalidInput,
        ModelError,
        ModelUnavailable,
        NotDelivered,
        PluginError,
        SessionNotFound,
        StorageError,
        ToolError,
    )
    from live_gateway.events import Event, EventActions
    from live_gateway.live.session import LiveSession
    from live_gateway.models.base import Model, ModelRequest, ModelResponse
    from live_gateway.models.cascade import CascadeLiveModel
    from live_gateway.models.keyword import KeywordModel
    from live_gateway.models.live import LiveConnection, LiveModel, VoiceActivityConfig
    from live_gateway.plugins.base import Plugin
    from live_gateway.runner import Runner
    from live_gateway.server.app import create_app
    from live_gateway.server.run import serve
    from live_gateway.sessions import InMemorySessionService, Session, SessionService, open_session_service
    from live_gateway.tools.base import Tool
    from live_gateway.tools.function import FunctionTool, tool
    from live_gateway.tools.streaming import StreamingTool

__version__ = "0.1.0"

_HOME = {
    "Blob": "content",
    "CascadeLiveModel": "models.cascade",
    "ConfigurationError": "errors",
    "Content": "content",
    "DeliveredNotPersisted": "errors",
    "DeliveryUnknown": "errors",
    "Event": "events",
    "EventActions": "events",
    "FunctionTool": "tools.function",
    "GatewayError": "errors",
    "InMemorySessionService": "sessions",
    "InvalidInput": "errors",
    "InvocationContext": "agents.context",
    "KeywordModel": "models.keyword",
    "LiveConnection": "models.live",
    "LiveModel": "models.live",
    "LiveRunConfig": "agents.config",
    "LiveSession": "live.session",
    "LlmAgent": "agents.llm",
    "Model": "models.base",
    "ModelError": "errors",
    "ModelRequest": "models.base",
    "ModelResponse": "models.base",
    "ModelUnavailable": "errors",
    "NotDelivered": "errors",
    "Part": "content",
    "Plugin": "plugins.base",
    "PluginError": "errors",
    "RunConfig": "agents.config",
    "Runner": "runner",
    "SequentialAgent": "agents.sequential",
    "Session": "sessions",
    "SessionNotFound": "errors",
    "SessionService": "sessions",
    "StorageError": "errors",
    "StreamingTool": "tools.streaming",
    "Tool": "tools.base",
    "ToolContext": "agents.context",
    "ToolError": "errors",
    "VoiceActivityConfig": "models.live",
    "create_app": "server.app",
    "open_session_service": "sessions",
    "serve": "server.run",
    "tool": "tools.function",
    "user_content": "content",
}

__all__ = [
    "Blob",
    "CascadeLiveModel",
    "ConfigurationError",
    "Content",
    "DeliveredNotPersisted",
    "DeliveryUnknown",
    "Event",
    "EventActions",
    "FunctionTool",
    "GatewayError",
    "InMemorySessionService",
    "InvalidInput",
    "InvocationContext",
    "KeywordModel",
    "LiveConnection",
    "LiveModel",
    "LiveRunConfig",
    "LiveSession",
    "LlmAgent",
    "Model",
    "ModelError",
    "ModelRequest",
    "ModelResponse",
    "ModelUnavailable",
    "NotDelivered",
    "Part",
    "Plugin",
    "PluginError",
    "RunConfig",
    "Runner",
    "SequentialAgent",
    "Session",
    "SessionNotFound",
    "SessionService",
    "StorageError",
    "StreamingTool",
    "Tool",
    "ToolContext",
    "ToolError",
    "VoiceActivityConfig",
    "__version__",
    "create_app",
    "open_session_service",
    "serve",
    "tool",
    "user_content",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
