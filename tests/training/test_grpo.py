"""The ids that are trained on are the ids that were sampled, turn by turn, while the weights change."""

from __future__ import annotations

import statistics
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from harness.episode import run_episode
from tests.training.students import Busy, Recorder, routing, tiny_model, tiny_tokenizer
from training import grpo
from training.chat import ChatML
from training.engine import Generated
from training.errors import EngineError, SettingsError
from training.grpo import BROKEN, RATIO, EpisodeTrainer, GrpoSettings, train_grpo
from training.models import load_model
from training.quiet import quiet_libraries
from training.trainer import optimize

TOKENIZER = tiny_tokenizer()
CHAT = Busy(TOKENIZER)
ENVIRONMENTS = routing(3)
LEAST, MOST = RATIO.replace("mean", "min"), RATIO.replace("mean", "max")
SETTINGS = GrpoSettings(steps=3, environments=2, group=2, new_tokens=10, context=1500, learning_rate=1e-3)


class Watched(EpisodeTrainer):
    """Keeps what the trainer made of every batch of episodes."""

    def __init__(self, *args, change=lambda number, given: given, **kwargs):
        super().__init__(*args, **kwargs)
        self.recorder = Recorder(self.engine, change)
        self.engine = self.recorder
        self.batches = []
        self.rewards = []

    def _generate_and_score_completions(self, inputs):
        batch = super()._generate_and_score_completions(inputs)
        self.batches.append(batch)
        self.rewards.append([one["reward"] for one in inputs])
        return batch


def trained(tmp_path, settings=SETTINGS, model=None, **more):
    """A trainer that has done its steps, and what it logged."""
    model = model or tiny_model(context=2048)
    with quiet_libraries():
        trainer = Watched(model, TOKENIZER, ENVIRONMENTS, CHAT, settings, tmp_path, **more)
        return trainer, optimize(trainer)


def weights(model) -> list[torch.Tensor]:
    return [one.detach().clone() for one in model.parameters()]


def distance(one, other) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))


@pytest.fixture
def rewarded(monkeypatch):
    """Lets a test choose what each rollout of a step earns; None breaks the episode."""

    def choose(*rewards: float | None) -> None:
        async def run(environment, agent, *, trial, seed):
            trajectory = await run_episode(environment, agent, trial=trial, seed=seed)
            reward = rewards[trial % len(rewards)]
            score = None if reward is None else trajectory.score.model_copy(update={"total": reward})
            return trajectory.model_copy(update={"score": score})

        monkeypatch.setattr(grpo, "run_episode", run)

    return choose


def test_trainer_and_sampler_agree_on_every_token_of_every_turn_while_the_weights_change(tmp_path, rewarded):
    rewarded(1.0, 0.0)
    model = tiny_model(context=2048)
    stages = [weights(model)]
    _, history = trained(tmp_path, model=model, on_step=lambda step, logs: stages.append(weights(model)))
    assert len(history) == SETTINGS.steps
    assert all(distance(before, after) > 1e-4 for before, after in pairwise(stages))
    for entry in history:
        assert entry[RATIO] == pytest.approx(1, abs=1e-3)
        assert entry[LEAST] == pytest.approx(1, abs=1e-2)
        assert entry[MOST] == pytest.approx(1, abs=1e-2)


def test_exactly_what_was_sampled_is_trained(tmp_path):
    trainer, _ = trained(tmp_path)
    assert len(trainer.batches) == SETTINGS.steps
    asked = trainer.recorder.asked
    assert len(asked) == SETTINGS.steps * SETTINGS.rows * (Busy.calls + 1)
    for batch in trainer.batches:
        for row in range(SETTINGS.rows):
            prompt = batch["prompt_ids"][row][batch["prompt_mask"][row].bool()].tolist()
            real = batch["completion_mask"][row].bool()
            ids = tuple(prompt + batch["completion_ids"][row][real].tolist())
            mask = [0] * len(prompt) + batch["tool_mask"][row][real].tolist()
            logprobs = [0.0] * len(prompt) + batch["sampling_per_token_logps"][row][real].tolist()
            turns = {
                len(one.context): one.given
                for one in asked
                if ids[: len(one.context) + len(one.given.ids)] == one.context + one.given.ids
            }
            assert len(turns) == Busy.calls + 1
            places = [(start, start + len(turn.ids)) for start, turn in sorted(turns.items())]
            sampled = {place for start, end in places for place in range(start, end)}
            assert [place for place, mine in enumerate(mask) if mine] == sorted(sampled)
            for start, turn in turns.items():
                assert logprobs[start : start + len(turn.ids)] == pytest.approx(turn.logprobs, abs=1e-6)


def test_the_proof_would_notice_a_single_token_that_was_not_sampled(tmp_path):
    def swap(number: int, given: Generated) -> Generated:
        return replace(given, ids=(*given.ids[:-1], 100 + number % 50), finish="length")

    settings = replace(SETTINGS, steps=1)
    _, history = trained(tmp_path, settings, change=swap)
    assert abs(history[0][RATIO] - 1) > 0.01
    assert history[0][LEAST] < 0.9


def test_rewards_become_advantages_of_their_group(tmp_path, rewarded):
    rewarded(1.0, 0.0, 0.5, 0.5, 0.7, 0.7, 0.7, 0.7)
    settings = replace(SETTINGS, steps=1, group=4)
    trainer, history = trained(tmp_path, settings)
    (batch,) = trainer.batches
    spread = statistics.stdev([1.0, 0.0, 0.5, 0.5]) + 1e-4
    expected = [0.5 / spread, -0.5 / spread, 0, 0, 0, 0, 0, 0]
    assert batch["advantages"].tolist() == pytest.approx(expected, abs=1e-5)
    assert history[0]["reward"] == pytest.approx(0.6)
    assert history[0][BROKEN] == 0


def test_an_episode_that_broke_moves_nothing_and_nobody(tmp_path, rewarded):
    rewarded(1.0, None, 0.0, 0.5)
    settings = replace(SETTINGS, steps=1, environments=1, group=4)
    trainer, history = trained(tmp_path, settings)
    (batch,) = trainer.batches
    assert trainer.rewards == [[1.0, None, 0.0, 0.5]]
    spread = statistics.stdev([1.0, 0.0, 0.5]) + 1e-4
    assert batch["advantages"].tolist() == pytest.approx([0.5 / spread, 0, -0.5 / spread, 0], abs=1e-5)
    assert not (batch["tool_mask"][1] * batch["completion_mask"][1]).any()
    assert history[0]["reward"] == pytest.approx(0.5)
    assert history[0][BROKEN] == 1


def test_an_engine_that_fails_once_breaks_one_episode_and_training_goes_on(tmp_path):
    failures = [EngineError("out of memory")]

    def fail(number: int, given: Generated) -> Generated:
        if number == 5 and failures:
            raise failures.pop()
        return given

    trainer, history = trained(tmp_path, replace(SETTINGS, steps=2), change=fail)
    assert [entry[BROKEN] for entry in history] == [1, 0]
    assert [rewards.count(None) for rewards in trainer.rewards] == [1, 0]


def test_a_step_in_which_everything_broke_ends_training_with_the_reason(tmp_path):
    def fail(number: int, given: Generated) -> Generated:
        raise EngineError("out of memory")

    with pytest.raises(EngineError, match=r"all 4 episodes of a step broke.*out of memory"):
        trained(tmp_path, change=fail)


def test_differing_rewards_change_the_weights_and_equal_ones_do_not(tmp_path, rewarded):
    def moved(*rewards: float) -> float:
        rewarded(*rewards)
        trainer, _ = trained(tmp_path, replace(SETTINGS, steps=1))
        return distance(weights(trainer.model), weights(tiny_model(context=2048)))

    assert moved(0.4, 0.4) == 0
    assert moved(1.0, 0.0) > 1e-4


def test_the_whole_training_writes_a_model_that_opens_and_prints_nothing(tmp_path, rewarded, capfd):
    rewarded(1.0, 0.0)
    model = tiny_model(context=2048)
    history = train_grpo(model, TOKENIZER, ENVIRONMENTS, CHAT, tmp_path / "out", replace(SETTINGS, steps=1))
    assert capfd.readouterr() == ("", "")
    assert len(history) == 1
    opened, _ = load_model(tmp_path / "out")
    assert distance(weights(opened), weights(model)) == 0
    assert distance(weights(opened), weights(tiny_model(context=2048))) > 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("settings", "chat", "message"),
    [
        ({"environments": 4}, CHAT, "a step plays 4 different environments, and the pack has 3"),
        ({"context": 4096}, CHAT, "the context is 4096 tokens, and the model has been made for 2048"),
        ({"context": 300}, ChatML(TOKENIZER), "3 of 3 environments do not fit into a context of 300 tokens"),
    ],
)
def test_what_cannot_be_played_is_told_before_training(tmp_path, settings, chat, message):
    steps: list[int] = []
    with pytest.raises(SettingsError, match=message):
        train_grpo(
            tiny_model(context=2048), TOKENIZER, ENVIRONMENTS, chat, tmp_path / "out", replace(SETTINGS, **settings),
            on_step=lambda step, logs: steps.append(step),
        )  # fmt: skip
    assert steps == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"environments": 1, "group": 3, "micro_batch": 2}, "are 3 rows, .* Use a micro_batch of 1"),
        ({"environments": 3, "group": 4, "micro_batch": 5}, "are 12 rows, .* Use a micro_batch of 4"),
        ({"group": 1}, "group and context 2"),
        ({"steps": 0}, "have to be at least 1"),
        ({"temperature": 0.0}, "greedy rollouts of a group are all alike"),
        ({"learning_rate": -1.0}, "have to be above 0"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_with_a_way_out(wrong, message):
    with pytest.raises(SettingsError, match=message):
        GrpoSettings(**wrong)
