"""Version 0: sessions, their events, and the states of sessions, users and apps; the version in a table of our own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0"
down_revision = None

_BIG_KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables in an empty database."""
    op.create_table(
        "sessions",
        sa.Column("key", _BIG_KEY, primary_key=True, autoincrement=True),
        sa.Column("app_name", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("head_seq", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("create_time", sa.Double, nullable=False),
        sa.Column("update_time", sa.Double, nullable=False),
        sa.UniqueConstraint("app_name", "user_id", "id"),
    )
    op.create_table(
        "events",
        sa.Column("session_key", _BIG_KEY, sa.ForeignKey("sessions.key", ondelete="CASCADE"), primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("invocation_id", sa.Text, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("timestamp", sa.Double, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.UniqueConstraint("session_key", "id"),
    )
    op.create_table("app_states", sa.Column("app_name", sa.Text, primary_key=True), sa.Column("state", sa.Text, nullable=False))
    op.create_table(
        "user_states",
        sa.Column("app_name", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Text, primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
    )
    op.create_table("schema_version", sa.Column("version", sa.Integer, primary_key=True, autoincrement=False))
