"""Settings for the tests of the student's side."""

from __future__ import annotations

from hypothesis import settings

# The first example of a property may import or compile something: time is not what these tests are about.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
