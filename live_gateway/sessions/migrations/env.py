"""What alembic runs to carry out migrations: on the connection that it is given, inside the caller's transaction."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
