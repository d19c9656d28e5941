"""The live session: one open conversation with a model.

`ordering`, `transcript` and `turns` are pure: they say what follows from what. `mailbox` holds what the listener has not taken yet.
`session` is the shell around them, `tools` runs what the model calls, `items` lists what a listener gets.
"""
