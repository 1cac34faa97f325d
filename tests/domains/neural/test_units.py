"""Units chosen by their columns, and columns that are kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import numpy as np
import pynwb
import pytest

from outofcore.errors import RawInputError
from tests.domains.neural.rig import convert, write_nwb

pytestmark = pytest.mark.filterwarnings("ignore")  # pynwb warns of its own ways

NAMES = {
    "stimulus": "stimulus/presentation/movie",
    "responses": None,
    "spike_times": "units",
    "trial": None,
    "valid": None,
}
QUALITY = ["good", "mua", "good", "noise", "good", "mua"]
RATES = [5.0, 0.1, 2.0, 9.0, np.nan, 3.0]
CLUSTERS = [0, 1, 2, 3, 4, 5]
LAYERS = ["L2[a]", "L2a", "L2[b]", "L3", "L4[[]b", "L4[b"]


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    generator = np.random.default_rng(4)
    file = pynwb.NWBFile("session", "id", datetime(2020, 1, 1, tzinfo=UTC))
    movie = generator.integers(0, 256, (100, 3, 4)).astype(np.uint8)
    file.add_stimulus(pynwb.image.ImageSeries(name="movie", data=movie, unit="n/a", rate=20.0, starting_time=0.0))
    probe = file.create_device("probe")
    shanks = [file.create_electrode_group(f"shank{number}", "x", "V1", probe) for number in (0, 1)]
    for place in range(6):  # `electrodes` of a table of units leads to another table, with a column of the same name
        file.add_electrode(location=f"depth {place}", group=shanks[0])
    for name in ("quality", "rate", "cluster", "kept", "layer", "location"):
        file.add_unit_column(name, name)
    spikes = []
    for unit, (quality, rate, cluster) in enumerate(zip(QUALITY, RATES, CLUSTERS, strict=True)):
        spikes.append(np.sort(generator.uniform(0, 5, 20 + 10 * unit)))
        file.add_unit(
            spike_times=spikes[-1],
            quality=quality,
            rate=rate,
            cluster=cluster,
            kept=unit > 2,
            layer=LAYERS[unit],
            location=f"depth {(unit + 1) % 6}",
            electrodes=[*range(unit % 3 + 1)],
            id=100 + unit,
            electrode_group=shanks[unit % 2],
        )
    return write_nwb(tmp_path_factory.mktemp("units"), file), spikes


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], [0, 1, 2, 3, 4, 5]),
        ([{"column": "quality", "values": ["good"]}], [0, 2, 4]),
        ([{"column": "quality", "values": ["g*", "mu?"]}], [0, 1, 2, 4, 5]),
        ([{"column": "rate", "min": 2, "max": 5.0}], [0, 2, 5]),
        ([{"column": "quality", "values": ["good"]}, {"column": "rate", "min": 1.0}], [0, 2]),
        ([{"column": "cluster", "values": [1, 5, 7]}], [1, 5]),
        ([{"column": "kept", "values": [True]}], [3, 4, 5]),
        ([{"column": "electrode_group", "values": ["shank1"]}], [1, 3, 5]),
        ([{"column": "location", "values": ["depth 3"]}], [2]),
        ([{"column": "id", "min": 104}], [4, 5]),
        ([{"column": "layer", "values": ["L2[a]", "L?[[]*"]}], [0, 4]),
    ],
)
def test_units_that_meet_every_condition_are_the_neurons(recording, conditions, expected):
    path, spikes = recording
    result = convert(path, names=NAMES, bin_width=0.05, units=conditions)
    assert result.only.rows["robs"].sum(0).tolist() == [len(spikes[unit]) for unit in expected]
    (schema,) = result.schemas.values()
    assert schema.attributes.get("units") == (expected if conditions else None)


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ({"column": "quality", "values": ["excellent"]}, "none of 6 units meets the conditions"),
        ({"column": "area", "values": ["V1"]}, "expected a column 'area' with one entry per unit; units has .*cluster"),
        ({"column": "spike_times", "min": 0}, "expected a column 'spike_times' with one entry per unit"),
        ({"column": "quality", "min": 0}, "quality holds words, which have no min or max; give values"),
        ({"column": "quality", "values": ["good"], "max": 3}, "quality holds words, which have no min or max"),
        ({"column": "cluster", "values": ["1", 2]}, "cluster holds numbers, got the word '1'; write numbers unquoted"),
    ],
)
def test_conditions_that_fit_no_unit_cost_the_session_and_say_why(recording, condition, words):
    with pytest.raises(RawInputError, match=words):
        convert(recording[0], names=NAMES, bin_width=0.05, units=[condition])


def test_columns_that_are_kept_name_the_neurons(recording):
    kept = [{"column": "quality"}, {"column": "rate"}, {"column": "electrode_group"}, {"column": "kept"}]
    result = convert(recording[0], names=NAMES, bin_width=0.05, units=[{"column": "cluster", "min": 2}, *kept])
    (schema,) = result.schemas.values()
    assert schema.attributes["units"] == [2, 3, 4, 5]
    columns = schema.attributes["unit_columns"]
    with pynwb.NWBHDF5IO(recording[0], "r") as io:
        table = io.read().units.to_dataframe()[2:]
    assert columns["quality"] == table["quality"].tolist()
    assert columns["rate"] == [None if np.isnan(rate) else rate for rate in table["rate"]]
    assert columns["electrode_group"] == [group.name for group in table["electrode_group"]]
    assert columns["kept"] == table["kept"].tolist() == json.loads(json.dumps(columns["kept"]))
