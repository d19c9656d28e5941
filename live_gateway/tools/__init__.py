"""Tools: what a model may call. `base` says what a tool is, `function` makes one of a Python function."""
