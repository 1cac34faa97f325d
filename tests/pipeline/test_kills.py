"""Stages that are killed leave what is whole or nothing, and end with the same bytes when they run again."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from itertools import cycle, islice
from pathlib import Path

import pytest

from tests.pipeline.kill_runs import DOMAINS, Killer
from tests.pipeline.power_loss import Losses
from tests.pipeline.workplace import Workplace, make_workplace

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
KILLS = (  # the signal, whether a store is there before, and whether metadata and seal are being written
    (signal.SIGKILL, True, False),
    (signal.SIGTERM, False, False),
    (signal.SIGINT, True, False),
    (signal.SIGKILL, False, True),
)


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_conversion_killed_at_any_moment_goes_on_to_the_same_bytes(domain: str, tmp_path: Path) -> None:
    killer = Killer(make_workplace(tmp_path / "place", domain, files=2), random.Random(5))
    for number, over, late in islice(cycle(KILLS), int(os.environ.get("OUTOFCORE_TRIES", len(KILLS)))):
        kill = killer.kill(number, over=over, late=late)
        assert kill.left == "new" or kill.left == ("old" if over else "none")
        assert kill.reused or not kill.resumed


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """Chess, converted, and the workplace."""
    place = make_workplace(tmp_path_factory.mktemp("trained") / "place", "chess", files=1)
    place.run("convert")
    return place


def weights(place: Workplace) -> bytes:
    return (place.folder / "models/chess/model.pt").read_bytes()


def test_a_training_stage_killed_at_any_step_ends_with_the_same_weights(converted: Workplace) -> None:
    place, dice = converted, random.Random(3)
    checkpoint = place.folder / "models/chess.partial/checkpoint.pt"
    place.run("train", OUTOFCORE_WORKERS="1")
    expected = weights(place)
    (place.folder / "models/chess/model.pt").unlink()
    resumed = []
    for number in (signal.SIGKILL, signal.SIGINT):
        running = place.start("train", 0.05, OUTOFCORE_WORKERS="1")
        while not checkpoint.exists() and running.poll() is None:
            time.sleep(0.01)
        time.sleep(dice.uniform(0, 0.3))
        if running.poll() is None:
            os.killpg(running.pid, number)
        told = running.communicate(timeout=280)[0]
        assert "Traceback" not in told, told
        assert "error:" not in told, told
        place.run("train", OUTOFCORE_WORKERS="1")
        resumed.append(place.run_figures("train")["resumed_from_step"])
        assert weights(place) == expected
        assert not checkpoint.exists()
        (place.folder / "models/chess/model.pt").unlink()
    assert max(resumed) > 0


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_power_loss_leaves_the_earlier_store_or_the_new_one(tmp_path: Path) -> None:
    losses, dice = Losses(tmp_path, "text"), random.Random(5)
    assert {event.kind for event in losses.recorded.events} >= {"create", "mkdir", "rename", "remove", "write", "sync"}
    for _ in range(8):
        losses.lose(dice)
