"""How close is the estimate of a store to what is then written, for published games, texts and recordings?

    python bench/estimates.py FOLDER

Settings are those of ``params.yaml``, recordings with the names of their own arrays. A set that is not in the folder is
left out.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.results import Row, arguments, save
from harness.stores import convert, files_of, section_of
from outofcore.conversion.estimate import estimate
from outofcore.conversion.executors import open_executor
from outofcore.domains.registry import get_domain

PATCH_CLAMP = {
    "stimulus": "stimulus/presentation/CurrentClampStimulusSeries_*",
    "responses": "acquisition/CurrentClampSeries_*",
}
GRASSHOPPER = {
    "stimulus": "stimulus1.txt.gz[1]",
    "frame_times": "stimulus1.txt.gz[0]",
    "responses": None,
    "spike_times": "spike_times1.txt",
}


@dataclass(frozen=True)
class Input:
    """A set, by its place in the folder."""

    raw: str  # a file or a folder; the first of its parts is the domain
    match: str = "**/*"  # which files of a folder
    source: dict[str, Any] = field(default_factory=dict)  # settings of the source that are not those of params.yaml

    @property
    def name(self) -> str:
        """What it is called in the table."""
        return self.raw if self.match == "**/*" else f"{self.raw}/{self.match}"


INPUTS = (
    Input("chess/players.pgn.zst"),
    Input("chess/Kramnik.pgn"),
    Input("chess/Kosteniuk.pgn"),
    Input("chess/online-with-clocks-games.pgn"),
    Input("chess/online-with-clocks-lichess_DannyTheDonkey_2019-01-29.pgn"),
    Input("chess/online-with-clocks-lichess_DrDrunkenstein_2019-01-29.pgn"),
    Input("chess/engine-with-comments.pgn"),
    Input("chess/chess960.pgn"),
    Input("chess/odd"),
    Input("go/players.tar.zst"),
    Input("go/named-first-line"),
    Input("go/kgs.tar.zst"),
    Input("go/fox.tar.zst"),
    Input("go/odd"),
    Input("text/novels.tar.zst"),
    Input("text/tinyshakespeare.txt"),
    Input("text/poems.jsonl.zst"),
    Input("neural/v1_pattern_images.h5", source={"names": {"trial": "trial"}}),
    Input(
        "neural/allen_repeats",
        source={
            "names": {"stimulus": "Allen_test_input", "responses": "Allen_test_output_big"},
            "frame_shape": [31, 31],
            "repeats": {"count": 50, "order": "together"},
            "trial_bins": 1,
        },
    ),
    Input("neural/nwb", "FergusonEtAl2015_PYR2.nwb", source={"names": PATCH_CLAMP, "stimulus_dtype": "float32"}),
    Input(
        "neural/grasshopper",
        source={
            "names": GRASSHOPPER,
            "bin_width": 0.001,
            "time_unit": "us",
            "stimulus_dtype": "float32",
            "response_dtype": "uint8",
            "resample": {"stimulus": "mean"},
        },
    ),
)


def compare(folder: Path, given: Input, tokenizer: Path) -> dict[str, int]:
    """Estimate, then convert."""
    name = given.raw.split("/")[0]
    changes: dict[str, Any] = {"match": given.match}
    if name == "text":
        changes["tokenizer"] = {"path": str(tokenizer)}
    section = section_of(name, folder / given.raw, changes)
    if given.source:
        plain = type(section).model_validate({"raw": "raw"}).source.model_dump()
        section = type(section).model_validate(section.model_dump() | {"source": plain | given.source})
    with open_executor("threads", 2) as executor:
        forecast = estimate(get_domain(name), section, files_of(name, section), executor)
    with tempfile.TemporaryDirectory() as out:
        figures = convert(name, section, Path(out) / f"{name}.zarr")
    return {
        "raw_bytes": forecast.raw_bytes,
        "looked_at_bytes": forecast.sampled_bytes,
        "estimate_bytes": forecast.store_bytes,
        "store_bytes": figures["bytes_store"],
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("folder", type=Path, help="where the published sets are: chess/, go/, text/, neural/")
    parser.add_argument("--tokenizer", type=Path, default=Path("data/tokenizers/text.json"))
    options = parser.parse_args()
    found = {
        given.name: compare(options.folder, given, options.tokenizer)
        for given in INPUTS
        if (options.folder / given.raw).exists()
    }
    rows = []
    for name, sizes in found.items():
        estimated = sizes["estimate_bytes"]
        ratio, against = estimated / sizes["store_bytes"], "what was written"
        rows += [
            Row(label=name, value=sizes["raw_bytes"] / 1e6, unit="MB raw", table="estimates"),
            Row(label=name, value=sizes["looked_at_bytes"] / 1e6, unit="MB sampled", table="estimates"),
            Row(label=name, value=sizes["store_bytes"] / 1e6, unit="MB written", table="estimates"),
            Row(
                label=name, value=estimated / 1e6, unit="MB estimated", ratio=ratio, against=against, table="estimates"
            ),
        ]
    save(options.out, "estimates", "stores: estimated and written", rows, details=found)


if __name__ == "__main__":
    main()
