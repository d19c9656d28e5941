"""A text model without a network: rules that choose among an agent's own tools. See `KeywordModel`."""

from live_gateway.models.keyword.model import KeywordModel

__all__ = ["KeywordModel"]
