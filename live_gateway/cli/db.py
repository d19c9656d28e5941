"""`live-gateway db upgrade`: bring the stored conversations to the schema of this program."""

from __future__ import annotations

import argparse
import asyncio

from live_gateway.cli.problems import CommandError, Exit
from live_gateway.errors import GatewayError
from live_gateway.sessions import default_path
from live_gateway.sessions.upgrade import upgrade
from live_gateway.settings import SettingsError, load_settings


def run(arguments: argparse.Namespace) -> int:
    """Upgrade the store and say what was done. Raises `CommandError` for one that cannot be upgraded."""
    try:
        done = asyncio.run(upgrade(load_settings(store=arguments.store).store or default_path()))
    except (GatewayError, SettingsError) as error:
        raise CommandError(str(error)) from None
    if done.before == done.now:
        print(f"{done.where} has schema version {done.now}, the newest. Nothing was changed.")
    elif done.before is None:
        print(f"{done.where} was empty and now has schema version {done.now}.")
    else:
        print(f"{done.where} was upgraded from schema version {done.before} to {done.now}.")
    return int(Exit.OK)
