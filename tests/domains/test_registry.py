"""Domains are found by their folder, or by the entry point of another package."""

from __future__ import annotations

import json
import subprocess
from importlib.metadata import version
from pathlib import Path

from outofcore.domains.registry import DOMAINS
from tests.processes import run_program

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, pathlib
import numpy as np
import outofcore
from outofcore.domains.registry import get_domain
from outofcore.report.render import make_page

domain = get_domain("dna")
raw = pathlib.Path("raw")
raw.mkdir()
domain.sample(raw, np.random.default_rng(1))
(raw / "without.fasta").write_text("\\nACGT\\n>of another file\\nACCA\\n")
figures = outofcore.convert("dna", raw, "data/stores/dna.zarr", splits={"val": 0.2})
metrics = pathlib.Path("metrics/dna")
metrics.mkdir(parents=True)
(metrics / "convert.json").write_text(json.dumps(figures))
(metrics / "train.json").write_text(json.dumps({"loss": 1.25, "loss_frequencies": 1.5}))
with outofcore.loader("data/stores/dna.zarr", "train", 8) as batches:
    batch = next(iter(batches))
task = domain.task(outofcore.open_store("data/stores/dna.zarr"), domain.section(raw="raw"))
_, count = task.loss(batch)
shapes = {name: list(tensor.shape) for name, tensor in batch.items()}
found = {"figures": figures, "shapes": shapes, "count": int(count), "page": make_page(pathlib.Path())}
pathlib.Path("found.json").write_text(json.dumps(found))
"""
COMMANDS = """
import contextlib, io, json, sys
from outofcore.cli import main

ended = {}
for command in sys.argv[1:]:
    sys.argv = ["outofcore", *command.split()]
    with contextlib.redirect_stdout(io.StringIO()) as told, contextlib.redirect_stderr(io.StringIO()) as errors:
        try:
            main()
        except SystemExit as ending:
            ended[command] = (ending.code, told.getvalue(), errors.getvalue())
print(json.dumps(ended))
"""


def install_dna(site: Path) -> None:
    """The worked example as a package of its own, as an installer would leave it."""
    package = site / "dna_for_training"
    package.mkdir(parents=True)
    for file in (ROOT / "docs/example/dna").glob("*.py"):
        (package / file.name).write_text(file.read_text().replace("outofcore.domains.dna", "dna_for_training"))
    install(site, "dna-for-training", "dna = dna_for_training\n", version="1.2")


def install(site: Path, name: str, entries: str, *, version: str) -> None:
    """What an installer writes about a package."""
    facts = site / f"{name.replace('-', '_')}-{version}.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (facts / "entry_points.txt").write_text(f"[outofcore.domains]\n{entries}")


def run(folder: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_program(code, *arguments, folder=folder, PYTHONPATH=str(folder / "site"))


def test_the_folders_here_are_domains() -> None:
    assert {"chess", "go", "text", "neural"} <= set(DOMAINS)


def test_another_package_adds_a_domain(tmp_path: Path) -> None:
    install_dna(tmp_path / "site")
    ran = run(tmp_path, PROGRAM)
    assert ran.returncode == 0, ran.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    figures = found["figures"]
    assert set(figures["rejected"]) == {"duplicate", "unknown_letter", "no_header"}
    assert figures["found"] == figures["accepted"] + sum(figures["rejected"].values()) == 204
    assert found["shapes"] == {"inputs": [8, 32], "targets": [8, 32]}
    assert found["count"] == 8 * 32
    assert 'id="dna"' in found["page"]
    assert "frequencies alone" in found["page"]
    commands = (
        "convert dna raw again.zarr -S splits.val=0.2 --json",
        "info again.zarr",
        "train again.zarr out -S train.max_steps=1",
    )
    commanded = run(tmp_path, COMMANDS, *commands)
    again, described, trained = json.loads(commanded.stdout).values()
    assert [again[0], described[0], trained[0]] == [0, 0, 0]
    assert json.loads(again[1])["digest"] == figures["digest"]
    assert "the first base:" in described[1]
    assert "try the model" not in trained[2]  # it has no predictions


def test_a_plan_refuses_what_the_loader_does(tmp_path: Path) -> None:
    """A reading that takes a column of text."""
    install_dna(tmp_path / "site")
    tensors = tmp_path / "site/dna_for_training/tensors.py"
    tensors.write_text(tensors.read_text().replace('fields = ("bases",)', 'fields, columns = ("bases",), ("header",)'))
    (tmp_path / "a.fasta").write_text(">first\nACGT\n")
    ((code, _, errors),) = json.loads(run(tmp_path, COMMANDS, "plan dna a.fasta").stdout).values()
    assert code == 2
    assert errors == "error: columns: sequences/header holds text, which no tensor can; use 'sequence' to look it up\n"


def test_without_that_package_there_is_no_such_domain(tmp_path: Path) -> None:
    ran = run(tmp_path, "import outofcore; outofcore.convert('dna', '.', 'a.zarr')")
    assert "no domain 'dna'; there are chess, go, neural, text" in ran.stderr


def test_versions_of_packages_that_determine_bytes(tmp_path: Path) -> None:
    """Those of the domain's package and of what it imports; none that poses as another."""
    install_dna(tmp_path / "site")
    for package, name, packages in (("of-rna", "rna", ()), ("outofcore", "mine", ("yaml", "nosuch.inner"))):
        install(tmp_path / "site", package, f"{name} = {name}\n", version="0.1")
        (tmp_path / f"site/{name}.py").write_text(f"class DOMAIN:\n    name, packages = {name!r}, {packages!r}\n")
    code = (
        "import json; from outofcore.conversion.inputs import versions as v; chess = v('chess').items()\n"
        "print(json.dumps([dict(v('dna').items() - chess), dict(v('mine').items() - v('rna').items()), v('mine')]))"
    )
    of_dna, of_mine, every = json.loads(run(tmp_path, code).stdout)
    assert of_dna == {"dna-for-training": "1.2"}
    assert of_mine == {"PyYAML": version("PyYAML")}
    assert "+" in every["outofcore"]


WRONG = {
    "dashed = my-pkg": "expected domain 'dashed' as DOMAIN in the module that its entry point names, got 'my-pkg' (",
    "empty =": "expected domain 'empty' as DOMAIN in the module that its entry point names, got '' (",
    "gone = nosuch": "got 'nosuch' (No module named 'nosuch'); reinstall or uninstall the package",
    "other = json": "got 'json' (module 'json' has no attribute 'DOMAIN'); reinstall",
    "misnamed = outofcore.domains.go": "to have the name of its domain 'go', got 'misnamed'; correct or uninstall",
    "go = json": "domain 'go' is in outofcore and in package bad 3.0; names are unique: uninstall",
    "dna = json": "domain 'dna' is in package ",
}
"""Entries of one package, and what is told where its domain is used."""


def test_an_entry_point_that_is_wrong_is_one_line_where_its_domain_is_used(tmp_path: Path) -> None:
    install_dna(tmp_path / "site")
    install(tmp_path / "site", "bad", "".join(f"{entry}\n" for entry in WRONG), version="3.0")
    commands = {f"convert {entry.split(' ')[0]} . a.zarr": told for entry, told in WRONG.items()}
    ended = json.loads(run(tmp_path, COMMANDS, *commands, "convert chess . a.zarr").stdout)
    _, _, right = ended.pop("convert chess . a.zarr")
    assert "package bad" not in right
    for told, (code, _, errors) in zip(WRONG.values(), ended.values(), strict=True):
        assert code == 2, told
        assert errors.startswith("error: ")
        assert errors.count("\n") == 1
        assert told in errors
        assert "package bad 3.0" in errors


def test_a_domain_uses_the_modules_of_the_one_that_it_extends() -> None:
    from outofcore.domains.chess import Chess

    class Mine(Chess):
        name = "mine"

    section = Mine.section(raw="-")
    assert Mine().schemas(section, []) == Chess().schemas(section, [])
    assert Mine().planned_task() is Chess().planned_task()
    assert Mine().prediction_options() is Chess().prediction_options()
