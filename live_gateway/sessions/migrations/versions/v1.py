"""Version 1: the number of the version is kept by alembic, and no longer in a table of our own."""

from __future__ import annotations

from alembic import op

revision = "1"
down_revision = "0"


def upgrade() -> None:
    """Remove the table of our own."""
    op.drop_table("schema_version")
