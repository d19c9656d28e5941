"""HTTP: the endpoints of google-adk's API server, with the same shapes (docs/reference/http-api.md).

`operations` says what an endpoint is, and makes routes of it; `openapi` makes the document that describes them. `meta`, `sessions`,
`artifacts` and `run` are the endpoints, `api` the table of them. `bodies` is what clients send, `views` what they get, `problems` what they
get instead. `runs` holds the runs that are going on, `sse` shows one to a client.
"""

from live_gateway.server.rest.api import Rest

__all__ = ["Rest"]
