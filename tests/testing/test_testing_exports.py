"""The doubles are public: every exported name exists and is documented."""

from __future__ import annotations

import pytest

from live_gateway import testing


def test_every_exported_name_is_there_and_has_a_docstring() -> None:
    for name in testing.__all__:
        assert getattr(testing, name).__doc__
    with pytest.raises(AttributeError, match="Nothing"):
        _ = testing.Nothing
