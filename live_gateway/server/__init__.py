"""The edge: what clients speak to.

`wire`, `json_text`, `messages`, `outgoing` and `limits` are pure: bytes and texts in, messages out, and back. `live_socket` and
`client_input` move them between a WebSocket and a live session, `gateway` knows which sessions are open, `rest` answers HTTP, `app` is the
ASGI application with `edge` around it, `guard` protects the port, `run` serves.
"""
