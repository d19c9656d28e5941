"""The command line. `main` parses and dispatches; `serve` runs a gateway; `talk` is a client that plays a recording to one.

`load` finds the agent, `local_voice` gives it what this machine has; `talk_client` is the client's side of the protocol without I/O,
`talk_audio` reads and writes sound files, `talk_display` shows what happens. Importing any of them costs nothing that is not used.
"""
