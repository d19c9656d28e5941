"""Every error of this package, in one tree, and what each means at an edge, in one table.

    GatewayError
    ├── ConfigurationError           the program is put together wrongly; nothing ran
    │   ├── ServiceMissing           a service that is not configured was used
    │   └── ModelUnavailable         the model cannot be used here (missing extra, missing key, not live-capable)
    ├── InvalidInput                 what the caller sent cannot be accepted
    │   ├── BadMessage               a frame or a body that does not parse or does not validate
    │   ├── BadAudioFrame            an audio frame of odd length, unknown codec or version
    │   ├── InvalidState             a state key that is no string, or a value that is no JSON
    │   ├── ContentRefused           a kind of content that a client may not send (function calls, files by address, ...)
    │   ├── VersionUnsupported       a version of the protocol that this server does not speak
    │   ├── NotSupported             a known request that this server does not carry out
    │   ├── MessageIdConflict        the same message id with other content
    │   └── ToolResponseNotExpected  an answer to a call that is not pending
    ├── SessionError
    │   ├── SessionNotFound          missing, or not yours: the same answer
    │   ├── SessionExists            a second create of an id
    │   └── DuplicateEvent           an event id that the session already holds
    ├── StorageError                 the store did not take or give what was asked
    ├── AgentError                   an agent did something that it must not do
    ├── PluginError                  a plugin raised; names plugin and hook
    ├── ToolError                    a tool failed; its message is for the model
    ├── ModelError                   the model's side failed
    │   ├── UpstreamLost             the connection to the model is gone
    │   ├── UpstreamQuota            the provider refuses for quota
    │   ├── UpstreamPolicy           the provider refuses for good (key, model, policy)
    │   ├── ContextExhausted         the provider takes the conversation no longer, not even the newest of it
    │   └── SetupTimeout             the model was not ready in time
    ├── LiveSessionClosed            the live session is closed; sending is over
    ├── RateLimited                  too much in too short a time
    └── SlowConsumer                 the client does not take what it is sent

Three more stand beside the tree, without a common parent, since "try again" is right for one of them only:
`NotDelivered` (safe to send again), `DeliveredNotPersisted` (never), `DeliveryUnknown` (ask the person).

A message of this tree is written for whoever reads it and may be shown to a client. `str()` of any other exception may not:
`public_error` turns those into `internal`.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

__all__ = [
    "AgentError",
    "BadAudioFrame",
    "BadMessage",
    "ConfigurationError",
    "ContentRefused",
    "ContextExhausted",
    "DeliveredNotPersisted",
    "DeliveryUnknown",
    "DuplicateEvent",
    "ErrorFacts",
    "GatewayError",
    "InvalidInput",
    "InvalidState",
    "LiveSessionClosed",
    "MessageIdConflict",
    "ModelError",
    "ModelUnavailable",
    "NotDelivered",
    "NotSupported",
    "PluginError",
    "PublicError",
    "RateLimited",
    "ServiceMissing",
    "SessionError",
    "SessionExists",
    "SessionNotFound",
    "SetupTimeout",
    "SlowConsumer",
    "StorageError",
    "ToolError",
    "ToolResponseNotExpected",
    "UpstreamLost",
    "UpstreamPolicy",
    "UpstreamQuota",
    "VersionUnsupported",
    "facts",
    "public_error",
]


class GatewayError(Exception):
    """Root of the tree. `code` is the stable word that clients see."""

    code: ClassVar[str] = "internal"


class ConfigurationError(GatewayError):
    code = "configuration"


class ServiceMissing(ConfigurationError):
    code = "service_missing"


class ModelUnavailable(ConfigurationError):
    code = "model_unavailable"


class InvalidInput(GatewayError):
    code = "invalid_input"


class BadMessage(InvalidInput):
    code = "bad_message"


class BadAudioFrame(InvalidInput):
    code = "bad_audio_frame"


class InvalidState(InvalidInput):
    code = "invalid_state"


class ContentRefused(InvalidInput):
    code = "content_refused"


class VersionUnsupported(InvalidInput):
    code = "version_unsupported"


class NotSupported(InvalidInput):
    code = "not_supported"


class MessageIdConflict(InvalidInput):
    code = "message_id_conflict"


class ToolResponseNotExpected(InvalidInput):
    code = "tool_response_not_expected"


class SessionError(GatewayError):
    code = "session"


class SessionNotFound(SessionError):
    code = "session_not_found"


class SessionExists(SessionError):
    code = "session_exists"


class DuplicateEvent(SessionError):
    code = "duplicate_event"


class StorageError(GatewayError):
    code = "storage_unavailable"


class AgentError(GatewayError):
    code = "agent"


class PluginError(GatewayError):
    """A plugin's hook raised. The original exception is the cause."""

    code = "plugin"

    def __init__(self, plugin: str, hook: str, reason: BaseException) -> None:
        super().__init__(f"plugin {plugin!r} failed in {hook}: {reason}")
        self.plugin = plugin
        self.hook = hook


class ToolError(GatewayError):
    """Raise it in a tool to tell the model what went wrong, in words meant for the model."""

    code = "tool"


class ModelError(GatewayError):
    code = "model"


class UpstreamLost(ModelError):
    code = "upstream_lost"


class UpstreamQuota(ModelError):
    code = "upstream_quota"


class UpstreamPolicy(ModelError):
    code = "upstream_policy"


class ContextExhausted(ModelError):
    code = "context_exhausted"


class SetupTimeout(ModelError):
    code = "setup_timeout"


class LiveSessionClosed(GatewayError):
    code = "session_closed"


class RateLimited(GatewayError):
    code = "rate_limited"


class SlowConsumer(GatewayError):
    code = "slow_consumer"


class NotDelivered(Exception):
    """No byte reached the model. Sending the same again is safe. The cause says why."""

    code: ClassVar[str] = "not_delivered"


class DeliveredNotPersisted(Exception):
    """The model has it, the store does not. Never send it again."""

    code: ClassVar[str] = "delivered_not_persisted"


class DeliveryUnknown(Exception):
    """The connection or the process died in between. Only the person can decide whether to send it again."""

    code: ClassVar[str] = "unknown"


@dataclass(frozen=True, slots=True)
class ErrorFacts:
    """What an error means at the edges.

    http_status: the answer of an HTTP endpoint.
    close_code: how a WebSocket is closed when the error ends it (docs/reference/wire.md).
    retryable: whether the same request may succeed later without being changed.
    """

    http_status: int
    close_code: int
    retryable: bool


_FACTS: MappingProxyType[type[Exception], ErrorFacts] = MappingProxyType(
    {
        GatewayError: ErrorFacts(500, 1011, retryable=False),
        ConfigurationError: ErrorFacts(500, 1011, retryable=False),
        ModelUnavailable: ErrorFacts(503, 4510, retryable=False),
        InvalidInput: ErrorFacts(400, 4500, retryable=False),
        VersionUnsupported: ErrorFacts(400, 4512, retryable=False),
        NotSupported: ErrorFacts(501, 4500, retryable=False),
        MessageIdConflict: ErrorFacts(409, 4500, retryable=False),
        ToolResponseNotExpected: ErrorFacts(409, 4500, retryable=False),
        SessionError: ErrorFacts(400, 4500, retryable=False),
        SessionNotFound: ErrorFacts(404, 4504, retryable=False),
        SessionExists: ErrorFacts(409, 4500, retryable=False),
        DuplicateEvent: ErrorFacts(409, 4500, retryable=False),
        StorageError: ErrorFacts(503, 4004, retryable=True),
        UpstreamLost: ErrorFacts(502, 4000, retryable=True),
        UpstreamQuota: ErrorFacts(429, 4006, retryable=True),
        UpstreamPolicy: ErrorFacts(502, 4510, retryable=False),
        ContextExhausted: ErrorFacts(502, 4509, retryable=False),
        SetupTimeout: ErrorFacts(504, 4007, retryable=True),
        ModelError: ErrorFacts(502, 4000, retryable=True),
        LiveSessionClosed: ErrorFacts(409, 1000, retryable=False),
        RateLimited: ErrorFacts(429, 4005, retryable=True),
        SlowConsumer: ErrorFacts(503, 4002, retryable=True),
        NotDelivered: ErrorFacts(503, 4000, retryable=True),
        DeliveredNotPersisted: ErrorFacts(500, 4004, retryable=False),
        DeliveryUnknown: ErrorFacts(500, 4000, retryable=False),
    }
)


def facts(error: BaseException) -> ErrorFacts:
    """What this error means at an edge: the row of its nearest ancestor in the table, `internal` for a stranger."""
    for kind in type(error).__mro__:
        if row := _FACTS.get(kind):
            return row
    return _FACTS[GatewayError]


@dataclass(frozen=True, slots=True)
class PublicError:
    """An error as a client may see it."""

    code: str
    message: str
    retryable: bool
    close_code: int
    http_status: int


def public_error(error: BaseException) -> PublicError:
    """The error as a client may see it. The words of a foreign exception are replaced; they may hold anything."""
    row = facts(error)
    if isinstance(error, GatewayError | NotDelivered | DeliveredNotPersisted | DeliveryUnknown):
        return PublicError(error.code, str(error), row.retryable, row.close_code, row.http_status)
    return PublicError("internal", "Something went wrong on the server.", row.retryable, row.close_code, row.http_status)
