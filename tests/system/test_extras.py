"""What only one domain needs is an extra of its name: without it, one line says what to install."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from outofcore.domains.registry import get_domain
from outofcore.errors import ParamsError
from outofcore.system.extras import load
from tests.processes import run_program

pytestmark = pytest.mark.xdist_group("report")

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
DOMAINS = ("chess", "go", "neural", "text")
PACKAGES = sorted({package for domain in DOMAINS for package in get_domain(domain).packages})


PROJECT = sorted(re.split(r"[<>=]", each)[0].lower() for each in EXTRAS["project"])


def without(packages: list[str] | tuple[str, ...], code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that cannot import these packages."""
    return run_program(f"import sys; sys.modules.update(dict.fromkeys({packages!r}))\n{code}", folder=folder)


@pytest.fixture(scope="module")
def raw(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the samples of all domains, and their stores."""
    folder = tmp_path_factory.mktemp("raw")
    shutil.copytree(project, folder, dirs_exist_ok=True)
    return folder


def test_each_domain_has_the_extra_that_it_names() -> None:
    for domain in DOMAINS:
        names = {re.split(r"[<>=]", each)[0].replace("-", "_") for each in EXTRAS[domain]}
        assert names == set(get_domain(domain).packages)
    assert EXTRAS["all"] == ["outofcore[chess,go,text,neural]"]


def test_a_conversion_without_one_package_names_its_extra(raw: Path) -> None:
    needed = [(domain, package) for domain in DOMAINS for package in get_domain(domain).packages]
    code = (
        f"import sys\nfrom outofcore.cli import main\nfor domain, package in {needed!r}:\n"
        "    sys.argv[1:] = 'convert', domain, f'data/sample/{domain}', 'without.zarr'\n"
        "    sys.modules[package] = None\n"
        "    try:\n        main()\n    except SystemExit as ended:\n        print(ended.code)\n"
        "    del sys.modules[package]\n"
    )
    ended = without((), code, raw)
    assert ended.stdout == "2\n" * len(needed)
    assert ended.stderr == "".join(
        f"error: domain {domain} needs {package}: pip install 'outofcore[{domain}]'\n" for domain, package in needed
    )
    assert not (raw / "without.zarr").exists()


def test_a_stream_and_a_tokenizer_name_the_extra_of_text(raw: Path) -> None:
    code = (
        "from outofcore import errors, stream, train_tokenizer\n"
        "for call in (lambda: stream('text', 'raw', tokenizer='t.json'), lambda: train_tokenizer('raw', 't.json')):\n"
        "    try:\n        call()\n    except errors.ParamsError as error:\n        print(error)\n"
    )
    ended = without(("tokenizers",), code, raw)
    assert ended.stdout == 2 * "domain text needs tokenizers: pip install 'outofcore[text]'\n"


def test_a_store_is_read_without_the_packages_that_make_one(raw: Path) -> None:
    code = (
        "from outofcore import loader, open_store\n"
        "from outofcore.domains.registry import get_domain\n"
        "for name in ('chess', 'go', 'neural'):\n"
        "    domain, store = get_domain(name), open_store(f'data/stores/{name}.zarr')\n"
        "    task = domain.task(store, domain.section(raw='.'))\n"
        "    batch = next(iter(loader(store, 'train', 4, **task.loader_options())))\n"
        "    loss, _ = task.loss(batch)\n"
        "    loss.backward()\n"
        "    print(loss > 0, 'torch._dynamo' in sys.modules)\n"
    )
    ended = without(PACKAGES, code, raw)
    assert (ended.stdout, ended.stderr) == (3 * "tensor(True) False\n", "")


def test_a_stage_without_one_package_names_its_extra(tmp_path: Path) -> None:
    stage = str(ROOT / "stages/tokenizer.py")
    code = f"import runpy, sys; sys.argv = ['']; runpy.run_path({stage!r}, run_name='__main__')"
    (tmp_path / "params.yaml").write_text("text: {raw: texts}\n")
    ended = without(("pyarrow",), code, tmp_path)
    assert ended.stderr == "error: domain text needs pyarrow: pip install 'outofcore[text]'\n"


def test_a_library_needs_no_package_of_a_project(raw: Path) -> None:
    code = (
        "import sys\nimport outofcore\nfrom outofcore.cli import main\n"
        "first = outofcore.convert('chess', 'data/sample/chess', 'one.zarr')\n"
        "batch = next(iter(outofcore.loader('one.zarr', 'train', 4)))\n"
        "print(len(batch['planes']), outofcore.open_store('one.zarr').digest == first['digest'])\n"
        "again = 'convert chess data/sample/chess two.zarr'\n"
        "for line in ('info one.zarr', 'show one.zarr', 'verify one.zarr', again):\n"
        "    sys.argv[1:] = line.split()\n"
        "    try:\n        main()\n    except SystemExit as ended:\n        print('ended with', ended.code)\n"
    )
    ended = without(PROJECT, code, raw)
    lines = ended.stdout.splitlines()
    assert lines[0] == "4 True", ended.stderr
    assert [line for line in lines if line.startswith("ended with")] == ["ended with 0"] * 4


def test_the_commands_that_need_a_project_name_its_extra(raw: Path, tmp_path: Path) -> None:
    shutil.copytree(raw, tmp_path, dirs_exist_ok=True)
    shutil.copytree(ROOT / "stages", tmp_path / "stages", dirs_exist_ok=True)
    (tmp_path / ".dvc").mkdir(exist_ok=True)
    (tmp_path / "params.yaml").write_text("chess: {raw: data/sample/chess}\n")
    code = (
        "import runpy, sys\nfrom outofcore.cli import main\n"
        "def run(call, *line):\n"
        "    sys.argv = list(line)\n"
        "    try:\n        call()\n    except SystemExit as ended:\n        print(line[1], ended.code)\n"
        "for line in ('init other --domains chess', 'plan chess', 'committed'):\n"
        "    run(main, 'outofcore', *line.split())\n"
        "run(lambda: runpy.run_path('stages/report.py', run_name='__main__'), 'report', 'chess')\n"
    )
    ended = without(PROJECT, code, tmp_path)
    said = [line for line in ended.stdout.splitlines() if line.endswith(" 2")]
    assert said == ["init 2", "committed 2", "chess 2"]  # a plan, and stages, need no DVC
    cure = "pip install 'outofcore[project]'"
    assert [line for line in ended.stderr.splitlines() if line.startswith("error: ")] == [
        f"error: outofcore init needs dvc: {cure}",
        f"error: {tmp_path}: a DVC project needs dvc: {cure}",
        f"error: the report needs jinja2: {cure}",
    ]
    assert not (tmp_path / "other").exists()


def test_a_report_without_the_packages_of_a_domain_lacks_its_pictures(raw: Path) -> None:
    code = (
        "from pathlib import Path\nfrom outofcore.report.collect import collect\n"
        "print({run.name: bool(run.store.pictures) for run in collect(Path()) if run.store})"
    )
    ended = without(("chess", "sgfmill"), code, raw)
    assert ended.stdout == "{'chess': False, 'go': True, 'neural': True, 'text': True}\n"
    assert ended.stderr == "no pictures of chess.zarr: domain chess needs chess: pip install 'outofcore[chess]'\n"


def test_a_package_that_is_broken_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(module: str) -> None:
        raise ImportError(f"lib{module}.so: cannot open shared object file")

    monkeypatch.setattr("outofcore.system.extras.import_module", broken)
    with pytest.raises(ParamsError, match=r"^this needs some: pip install 'outofcore\[extra\]', or do without$"):
        load("some.module", "extra", "this", instead=", or do without")


def test_the_core_describes_stores_of_all_domains(raw: Path) -> None:
    code = (
        "import sys\nfrom outofcore.cli import main\n"
        f"for path in {[path(domain) for domain in DOMAINS]!r}:\n"
        "    sys.argv[1:] = 'info', path\n"
        "    try:\n        main()\n    except SystemExit as ended:\n        print(f'ended with {ended.code}')\n"
        "print({'numba', 'torch', 'zarr'} & {*sys.modules}, end='')\n"
    )
    code = f"import sys; sys.modules.update(dict.fromkeys({PACKAGES!r}))\n{code}"
    ended = subprocess.run([sys.executable, "-c", code], cwd=raw, capture_output=True, text=True, check=False)
    *cards, imported = ended.stdout.split("ended with 0\n")
    assert imported == "set()"
    assert len(cards) == len(DOMAINS), ended.stderr
    for domain, card in zip(DOMAINS, cards, strict=True):
        last = card.rstrip().splitlines()[-1]
        assert last.endswith(f"pip install 'outofcore[{domain}]'") is (domain in {"chess", "text"})


def path(domain: str) -> str:
    return f"data/stores/{domain}.zarr"
