"""Artifacts as files below one directory.

    <root>/<app>/<user>/session-<session>/<name>/<version>     and     <root>/<app>/<user>/user/<name>/<version>

Each of these is a hash of what it stands for, so no name, however strange, reaches the file system, and none can point out of the root.
A file begins with one line of JSON (name, MIME type) and goes on with the bytes. It is written aside, flushed to disk and then linked to
its number, which fails if another process took that number first: a version is there whole or not at all, and is never overwritten.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from live_gateway.artifacts.base import DEFAULT_MAX_BYTES, check_name, check_part, owner
from live_gateway.content import Blob, Part
from live_gateway.errors import StorageError

T = TypeVar("T")


class DirectoryArtifactService:
    """An `ArtifactService` in a directory, which is made when first needed. Any number of processes may use one.

    `max_bytes`: largest artifact that is taken. Files are read and written in threads.
    """

    def __init__(self, root: str | Path, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._root = Path(root)
        self._max_bytes = max_bytes

    async def save(self, *, app_name: str, user_id: str, session_id: str, name: str, part: Part) -> int:
        check_name(name)
        check_part(part, self._max_bytes)
        folder = self._folder(app_name, user_id, owner(session_id, name)) / _hash(name)
        return await _in_thread(partial(_write, folder, _pack(name, part)))

    async def load(self, *, app_name: str, user_id: str, session_id: str, name: str, version: int | None = None) -> Part | None:
        check_name(name)
        folder = self._folder(app_name, user_id, owner(session_id, name)) / _hash(name)
        return await _in_thread(partial(_read, folder, version))

    async def list(self, *, app_name: str, user_id: str, session_id: str) -> Sequence[str]:
        folders = [self._folder(app_name, user_id, session_id), self._folder(app_name, user_id, None)]
        return await _in_thread(lambda: sorted(name for folder in folders for name in _names(folder)))

    async def versions(self, *, app_name: str, user_id: str, session_id: str, name: str) -> Sequence[int]:
        check_name(name)
        folder = self._folder(app_name, user_id, owner(session_id, name)) / _hash(name)
        return await _in_thread(partial(_versions, folder))

    async def delete(self, *, app_name: str, user_id: str, session_id: str, name: str) -> None:
        check_name(name)
        folder = self._folder(app_name, user_id, owner(session_id, name)) / _hash(name)
        await _in_thread(partial(_remove, folder))

    def _folder(self, app_name: str, user_id: str, session_id: str | None) -> Path:
        last = "user" if session_id is None else f"session-{_hash(session_id)}"
        return self._root / _hash(app_name) / _hash(user_id) / last


async def _in_thread(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        raise StorageError(f"the artifact directory cannot be used: {error.strerror or type(error).__name__}") from error


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _pack(name: str, part: Part) -> bytes:
    header: dict[str, Any] = {"name": name}
    if part.inline_data is not None and part.inline_data.data is not None:
        header |= {"mimeType": part.inline_data.mime_type, "displayName": part.inline_data.display_name}
        body = part.inline_data.data
    else:
        header["text"] = True
        body = (part.text or "").encode("utf-8", "surrogatepass")
    return json.dumps(header).encode() + b"\n" + body


def _unpack(data: bytes) -> Part:
    first, _, body = data.partition(b"\n")
    header = json.loads(first)
    if header.get("text"):
        return Part(text=body.decode("utf-8", "surrogatepass"))
    return Part(inline_data=Blob(data=body, mime_type=header.get("mimeType"), display_name=header.get("displayName")))


def _write(folder: Path, data: bytes) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".new-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        version = max(_versions(folder), default=-1) + 1
        while not _linked(temporary, folder / str(version)):
            version += 1
        return version
    finally:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()


def _linked(temporary: str, target: Path) -> bool:
    try:
        os.link(temporary, target)
    except FileExistsError:
        return False
    return True


def _read(folder: Path, version: int | None) -> Part | None:
    number = max(_versions(folder), default=-1) if version is None else version
    try:
        return _unpack((folder / str(number)).read_bytes()) if number >= 0 else None
    except FileNotFoundError:
        return None


def _versions(folder: Path) -> list[int]:
    try:
        return sorted(int(entry.name) for entry in os.scandir(folder) if entry.name.isdecimal())
    except FileNotFoundError:
        return []


def _names(folder: Path) -> list[str]:
    try:
        kept = [Path(entry.path) for entry in os.scandir(folder)]
    except FileNotFoundError:
        return []
    return [name for each in kept if (name := _name_in(each)) is not None]


def _name_in(folder: Path) -> str | None:
    for version in _versions(folder):
        with contextlib.suppress(FileNotFoundError), (folder / str(version)).open("rb") as file:
            name: str = json.loads(file.readline())["name"]
            return name
    return None


def _remove(folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)
