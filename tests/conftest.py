"""Settings for all tests."""

from __future__ import annotations

import pytest
from hypothesis import settings

# The first example of a property may import or compile something: time is not what these tests are about.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio, as the product does."""
    return "asyncio"
