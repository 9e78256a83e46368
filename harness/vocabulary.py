"""What a reader of messages knows in a given workplace: who its people are, and what day it is."""

from __future__ import annotations

from datetime import datetime

from harness.facts import Name, Vocabulary
from servers.image import Image
from servers.tools import zone


def vocabulary_of(image: Image) -> Vocabulary:
    """The vocabulary for reading messages about a workplace, on the principal's day."""
    today = datetime.fromtimestamp(image.start, zone(image.people[image.principal].timezone)).date()
    return Vocabulary(tuple(Name.person(person.name) for person in image.people.values()), today)
