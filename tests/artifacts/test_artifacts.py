"""One suite for every store of artifacts, and what only the directory can do wrong."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from live_gateway.artifacts.base import ArtifactService
from live_gateway.artifacts.directory import DirectoryArtifactService
from live_gateway.artifacts.memory import InMemoryArtifactService
from live_gateway.content import Blob, FileData, Part
from live_gateway.errors import InvalidInput, StorageError

HERE: dict[str, Any] = {"app_name": "app", "user_id": "u", "session_id": "s"}


def blob(data: bytes, mime: str = "application/octet-stream") -> Part:
    return Part(inline_data=Blob(data=data, mime_type=mime))


@pytest.fixture(params=["memory", "directory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ArtifactService:
    stores: dict[str, Callable[[], ArtifactService]] = {
        "memory": lambda: InMemoryArtifactService(max_bytes=1000),
        "directory": lambda: DirectoryArtifactService(tmp_path / "artifacts", max_bytes=1000),
    }
    return stores[request.param]()


async def test_versions_count_from_0_and_the_newest_is_loaded(store: ArtifactService) -> None:
    first, second = blob(b"\x00\n{one}\r\n", "image/png"), Part(text="zwei\nüber {}")
    assert [await store.save(**HERE, name="a.bin", part=part) for part in (first, second)] == [0, 1]
    assert await store.load(**HERE, name="a.bin") == second
    assert await store.load(**HERE, name="a.bin", version=0) == first
    assert await store.versions(**HERE, name="a.bin") == [0, 1]


async def test_what_is_not_there_is_none_or_empty_and_deleting_it_is_no_error(store: ArtifactService) -> None:
    assert await store.list(**HERE) == []
    await store.save(**HERE, name="a", part=blob(b"x"))
    for name, version in (("b", None), ("a", 1), ("a", -1)):
        assert await store.load(**HERE, name=name, version=version) is None
    assert await store.versions(**HERE, name="b") == []
    await store.delete(**HERE, name="b")
    await store.delete(**HERE, name="a")
    assert await store.load(**HERE, name="a") is None
    assert await store.list(**HERE) == []
    assert await store.save(**HERE, name="a", part=blob(b"y")) == 0


async def test_a_user_artifact_is_seen_from_all_of_the_users_sessions_and_from_no_other(store: ArtifactService) -> None:
    await store.save(**HERE, name="user:photo", part=blob(b"p"))
    await store.save(**HERE, name="note", part=blob(b"n"))
    other_session: dict[str, Any] = {**HERE, "session_id": "user"}
    assert await store.list(**HERE) == ["note", "user:photo"]
    assert await store.list(**other_session) == ["user:photo"]
    assert await store.load(**other_session, name="user:photo") == blob(b"p")
    assert await store.load(**other_session, name="note") is None
    for stranger in ({**HERE, "user_id": "v"}, {**HERE, "app_name": "b"}):
        assert await store.list(**stranger) == []


@pytest.mark.parametrize("name", ["", " ", ".", "..", "a/b", "../a", "a\\b", "user:", "user:..", "a\0b", "a\nb", "x" * 201])
async def test_illegal_names_are_refused_by_every_method(store: ArtifactService, name: str) -> None:
    with pytest.raises(InvalidInput):
        await store.save(**HERE, name=name, part=blob(b"x"))
    for method in (store.load, store.versions, store.delete):
        with pytest.raises(InvalidInput):
            await method(**HERE, name=name)


async def test_parts_of_another_kind_and_too_large_ones_are_refused(store: ArtifactService) -> None:
    for part in (Part(), Part(file_data=FileData(file_uri="gs://x")), blob(b"x" * 1001), Part(text="x" * 1001)):
        with pytest.raises(InvalidInput):
            await store.save(**HERE, name="a", part=part)
    assert await store.list(**HERE) == []


async def test_a_saved_part_does_not_change_with_the_callers(store: ArtifactService) -> None:
    part = Part(text="before")
    await store.save(**HERE, name="a", part=part)
    part.text = "after"
    loaded = await store.load(**HERE, name="a")
    assert loaded is not None
    assert loaded.text == "before"
    loaded.text = "changed"
    assert (await store.load(**HERE, name="a")) == Part(text="before")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300), name=st.text(min_size=1, max_size=30), text=st.text(max_size=50))
async def test_any_legal_name_and_any_bytes_make_the_round_trip(store: ArtifactService, data: bytes, name: str, text: str) -> None:
    try:
        version = await store.save(**HERE, name=name, part=blob(data))
    except InvalidInput:
        return
    assert await store.load(**HERE, name=name, version=version) == blob(data)
    assert name in await store.list(**HERE)
    await store.save(**HERE, name=name, part=Part(text=text))
    assert await store.load(**HERE, name=name) == Part(text=text)


async def test_nothing_leaves_the_directory_and_no_name_reaches_the_file_system(tmp_path: Path) -> None:
    store = DirectoryArtifactService(tmp_path / "root")
    where: dict[str, Any] = {"app_name": "../../app", "user_id": "..", "session_id": "/etc/passwd"}
    await store.save(**where, name="sécret", part=blob(b"x"))
    assert await store.load(**where, name="sécret") == blob(b"x")
    files = [path.relative_to(tmp_path) for path in tmp_path.rglob("*")]
    assert {path.parts[0] for path in files} == {"root"}
    assert not any("cret" in str(path) or "passwd" in str(path) for path in files)


def test_two_writers_never_take_the_same_version(tmp_path: Path) -> None:
    def write(number: int) -> list[int]:
        store = DirectoryArtifactService(tmp_path)

        async def many() -> list[int]:
            return [await store.save(**HERE, name="a", part=blob(f"{number}-{i}".encode())) for i in range(20)]

        return asyncio.run(many())

    with ThreadPoolExecutor(4) as pool:
        versions = [version for each in pool.map(write, range(4)) for version in each]
    assert sorted(versions) == list(range(80))
    stored = [asyncio.run(DirectoryArtifactService(tmp_path).load(**HERE, name="a", version=version)) for version in versions]
    assert len({part.inline_data.data for part in stored if part is not None and part.inline_data is not None}) == 80
    assert not list(tmp_path.rglob(".new-*"))


@pytest.mark.skipif(os.name == "nt", reason="a file in the place of the directory is reported otherwise there")
async def test_a_broken_directory_is_a_storage_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    store = DirectoryArtifactService(blocked)
    with pytest.raises(StorageError):
        await store.save(**HERE, name="a", part=blob(b"x"))
