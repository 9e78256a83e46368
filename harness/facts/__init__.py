"""Facts stated in free text: what a message says, read without substring tricks and without a model.

A grader asks whether a message names the right ticket, amount, day and person, and nothing else of the kind.
A search for substrings is fooled both ways: "1240" is inside "12403", and a message that lists every
candidate holds the right one too. Here the text is read once into typed facts, and these are compared as
values:

- ``extract``: text to facts (``extract.py``; dates and times in ``moments.py``, all that starts with a number
  in ``quantities.py``);
- ``compare``: facts that are required and allowed against facts that were stated (``compare.py``);
- ``apart``: facts that are not said of what they should be said of (``together.py``);
- ``render``: the same fact in other words, to prove that harmless paraphrases are kept (``render.py``);
- ``Fact``, ``Vocabulary`` and the values (``model.py``).

One rule goes before all others: **what is ambiguous yields no fact**, since a wrong fact fails a good message
or passes a bad one. "12/03/2026" without a known order, "next Tuesday" where two readings differ, "2:30"
without am or pm, a first name that two people share: all are skipped, together with the digits in them.

Everything is pure and deterministic, and takes time linear in the text, whatever the text is.

Not promised: understanding. Negation ("not TCK-104"), hedges ("about") and attribution ("Ana said") are not
read; languages other than English are read only as far as numbers and ISO dates go.
"""

from harness.facts.compare import FactReport, compare
from harness.facts.extract import extract, parse_fact
from harness.facts.model import (
    DEFAULT_ID,
    Amount,
    ClockTime,
    Fact,
    FactError,
    FactKind,
    FactValue,
    Name,
    Vocabulary,
)
from harness.facts.render import render, styles
from harness.facts.together import apart

__all__ = [
    "DEFAULT_ID",
    "Amount",
    "ClockTime",
    "Fact",
    "FactError",
    "FactKind",
    "FactReport",
    "FactValue",
    "Name",
    "Vocabulary",
    "apart",
    "compare",
    "extract",
    "parse_fact",
    "render",
    "styles",
]
