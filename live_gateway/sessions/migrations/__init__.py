"""The versions of the SQL store's schema, as alembic scripts; `live_gateway.sessions.upgrade` runs them.

Version 0 is the first: the four tables, and a number in a table `schema_version` of our own. Stores made before there were migrations have
it. Version 1 has the same four tables; the number is kept where alembic keeps it, in `alembic_version`.

A new version is a script in `versions/` with the next number as its `revision`, the same change in `schema.py`, and that number as
`SCHEMA_VERSION` there. Scripts are never changed once they are released, and go forward only. A test compares what they make with
`schema.py`, on SQLite and on PostgreSQL.
"""
