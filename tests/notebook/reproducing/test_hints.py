"""Why a notebook does not put out what it did, where its text tells."""

import pytest

from cellwright.notebook.reproducing.hints import defines, missing_name, out_of_order, uses_chance, why_missing
from requirements import requirement


@requirement("reproduce:hints")
@pytest.mark.parametrize(
    ("sources", "chance"),
    [
        (["import random", "random.random()"], True),
        (["import numpy as np", "np.random.rand(3)"], True),
        (["rng = np.random.default_rng()", "rng.normal()"], True),
        (["random.seed(1)", "random.random()"], False),
        (["rng = np.random.default_rng(7)", "rng.normal()"], False),
        (["torch.manual_seed(0); torch.rand(3)"], False),
        (["df.sample(3, random_state=1)"], False),
        (["print('hello')"], False),
    ],
)
def test_random_numbers_without_a_seed_are_seen(sources: list[str], chance: bool) -> None:
    assert uses_chance(sources) is chance


@requirement("reproduce:hints")
@pytest.mark.parametrize(
    ("source", "does"),
    [
        ("frame = load()", True),
        ("frame, rest = load()", True),
        ("frame: int = 3", True),
        ("import pandas as frame", True),
        ("from x import frame", True),
        ("def frame(): ...", True),
        ("for frame in frames: ...", True),
        ("if (frame := 3): ...", True),
        ("frame <- 3", True),
        ("frame == 3", False),
        ("frame.x = 3", False),
        ("print(frame)", False),
        ("other.frame = 3", False),
        ("my_frame = 3", False),
    ],
)
def test_what_gives_a_name_a_value_is_seen(source: str, does: bool) -> None:
    assert defines(source, "frame") is does


@requirement("reproduce:hints")
def test_why_a_name_is_missing() -> None:
    assert missing_name("NameError", "name 'frame' is not defined") == "frame"
    assert missing_name("ValueError", "name 'frame' is not defined") is None
    assert "no cell defines 'frame'" in why_missing("frame", ["a = 1"], [(4, "b = 2")])
    assert "only below, in cell 4" in why_missing("frame", ["a = 1"], [(4, "frame = 2")])
    assert "not in this run" in why_missing("frame", ["frame = 1"], [])


@requirement("reproduce:hints")
def test_cells_that_were_run_before_one_above_are_found() -> None:
    assert out_of_order([(0, 1), (2, 2), (3, None), (4, 5)]) == []
    assert out_of_order([(0, 1), (2, 7), (3, 3), (4, 8), (5, 2)]) == [3, 5]
