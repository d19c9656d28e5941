"""Stored conversations: what a session is (`base`), its state (`state`), who writes it (`writer`), and the stores."""
