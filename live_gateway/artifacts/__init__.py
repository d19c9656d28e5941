"""Artifacts: named files with versions that belong to a session or to a user. `base` says what a store can do."""
