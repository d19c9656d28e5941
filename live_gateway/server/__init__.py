"""The edge: what clients speak to.

`wire`, `messages`, `outgoing` and `limits` are pure: bytes and texts in, messages out, and back. `live_socket` moves them between a
WebSocket and a live session, `gateway` knows which sessions are open, `app` is the ASGI application, `guard` protects the port, `run`
serves.
"""
