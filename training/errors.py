"""Everything that can go wrong on the student's side, and who may catch it.

* ``ModelFetchError``: there is no model, it cannot be fetched or converted, or its folder is damaged.
* ``SettingsError``: what was asked for cannot be trained: settings that contradict each other, environments
  that do not fit, a folder that is taken. Always raised before training starts.
* ``DemonstrationError``: a trajectory cannot serve as a demonstration.
* ``EngineError``: no tokens came back. The episode is not the student's fault and is never scored 0. Its
  subclasses tell a rollout what happened: nobody answers, too slow, refused, or nonsense.
* ``ChatFormatError``: a chat template cannot be used turn by turn. Raised when the format is built or asked
  to write a conversation that it cannot write, never while reading what a student sampled.
* ``LedgerError``: a caller broke the order prompt, turn, bridge, turn, or a stored ledger is inconsistent: a
  bug or a damaged file. Running out of context is not an error: see ``training.ledger.ContextBudget``.

Command lines print what reaches them and stop; an ``EngineError`` in an episode ends only that episode.
"""

from __future__ import annotations

from servers.errors import CoworkEnvError


class TrainingError(CoworkEnvError):
    """Base of what this package raises on purpose."""


class ModelFetchError(TrainingError):
    """The model could not be fetched, converted, written, verified or opened."""


class SettingsError(TrainingError):
    """What was asked for cannot be trained."""


class DemonstrationError(TrainingError):
    """A trajectory cannot be used as a demonstration."""


class ChatFormatError(TrainingError):
    """A chat template cannot render a conversation turn by turn."""


class LedgerError(TrainingError):
    """A token ledger was used out of order, or its stored form does not hold together."""


class EngineError(TrainingError):
    """A token engine returned no tokens."""


class EngineUnavailableError(EngineError):
    """Nobody answers at the engine's address."""


class EngineTimeoutError(EngineError):
    """The engine did not answer within the time it was given."""


class EngineRejectedError(EngineError):
    """The engine refused the request; the message carries its reason."""


class EngineProtocolError(EngineError):
    """The engine answered, but not in the agreed form."""
