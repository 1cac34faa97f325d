"""``outofcore init``: what it writes, what it keeps, and what it makes of a project that is there."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from outofcore import __version__
from outofcore.domains.registry import DOMAINS, get_domain
from outofcore.errors import ParamsError
from outofcore.params import load_params
from outofcore.project.create import create
from outofcore.project.written import ORDER, definition, params
from outofcore.settings.machine import SETTINGS, load_machine
from outofcore.space.dvc_cache import find_cache
from tests.lines_project import call, lines
from tests.space.conftest import dvc, no_settings_of_the_user

__all__ = ["lines", "no_settings_of_the_user"]  # fixtures

ROOT = Path(__file__).parents[2]


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_this_repository_is_the_project_of_all_domains() -> None:
    cure = "change project/files/pipeline.yaml or the settings of a domain, then render: see docs/architecture.md"
    assert (ROOT / "dvc.yaml").read_text() == definition(ORDER, sources=True, sampled=ORDER), cure
    assert (ROOT / "params.yaml").read_text() == params(ORDER), cure
    assert find_cache(ROOT) is not None
    assert (ROOT / ".dvc/config").read_text() == (ROOT / "src/outofcore/project/files/config").read_text()
    ignored = (ROOT / "src/outofcore/project/files/gitignore").read_text().splitlines()
    assert set(ignored) <= set((ROOT / ".gitignore").read_text().splitlines())


@pytest.mark.parametrize("chosen", [("chess",), ("go", "text"), ORDER], ids="-".join)
def test_a_project_speaks_of_its_own_domains_only(chosen: tuple[str, ...], tmp_path: Path) -> None:
    result = call("init", tmp_path / "p", "--domains", ",".join(reversed(chosen)))
    assert result.stdout.splitlines()[-1] == f"next: cd {tmp_path / 'p'} && dvc repro"
    assert max(len(line) for line in result.stdout.splitlines()[:-1]) <= 80
    stages = yaml.safe_load((tmp_path / "p/dvc.yaml").read_text())["stages"]
    assert list(stages["sample"]["foreach"]) == list(chosen)
    assert ("tokenizer" in stages) == ("text" in chosen)
    assert load_params(tmp_path / "p/params.yaml").domains == chosen
    for name in chosen:
        load_params(tmp_path / "p/params.yaml").section(name)
    scripts = {path.name for path in (tmp_path / "p/stages").iterdir()}
    called = {line.split()[1].removeprefix("stages/") for each in stages.values() for line in [command(each)]}
    assert scripts == called
    text = (tmp_path / "p/dvc.yaml").read_text() + (tmp_path / "p/README.md").read_text()
    for other in set(ORDER) - set(chosen) - {"go"}:  # which is a verb
        assert other not in text.replace("plain text", "")
    assert "src/" not in text
    assert "# " in (tmp_path / "p/params.yaml").read_text()  # the comments of the settings


def command(stage: dict[str, dict[str, str]] | dict[str, str]) -> str:
    inner = stage.get("do", stage)
    assert isinstance(inner, dict)
    return str(inner["cmd"])


def test_a_project_in_a_new_folder_is_one_for_dvc_without_git(tmp_path: Path) -> None:
    create(tmp_path / "p", ["chess"])
    cache = find_cache(tmp_path / "p")
    assert cache is not None
    assert cache.types[0] == "hardlink"
    assert re.match(
        rf"outofcore\[chess,project\]( @ \S+ # )?=={__version__}\nchess==",
        (tmp_path / "p/requirements.txt").read_text(),
    )
    ended = dvc(tmp_path / "p", "stage", "list", "--name-only")
    of_chess = [f"{name}@chess" for name in ("sample", "check", "convert", "train", "evaluate")]
    assert ended.stdout.split() == [*of_chess, "report"]


def test_without_git_the_way_to_it_is_shown_for_experiments(tmp_path: Path) -> None:
    alone = call("init", tmp_path / "alone", "--domains", "chess").stdout.splitlines()
    assert alone[-2] == "new      .dvc/config: for 'dvc exp': git init && dvc config --unset core.no_scm"
    subprocess.run(["git", "init", "-q", tmp_path / "ours"], check=True)
    assert "git init" not in call("init", tmp_path / "ours", "--domains", "chess").stdout


@pytest.mark.parametrize("place", [".", "sub"])
def test_in_a_repository_the_next_command_commits_what_was_written(tmp_path: Path, place: str) -> None:
    """All of it, and nothing else: 'dvc exp run --queue' finds the pipeline in the commit."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for setting in ("user.name=me", "user.email=me@example.org"):
        subprocess.run(["git", "-C", tmp_path, "config", *setting.split("=")], check=True)
    (tmp_path / "mine.txt").touch()
    told = call("init", tmp_path / place, "--domains", "chess,text").stdout.splitlines()[-1]
    command = told.removeprefix("next: ").removesuffix(" && dvc repro")
    subprocess.run(command, shell=True, cwd=tmp_path, check=True, capture_output=True)
    untracked = subprocess.run(["git", "-C", tmp_path, "status", "-s"], capture_output=True, text=True, check=True)
    assert untracked.stdout.splitlines() == ["?? mine.txt"]
    assert call("init", tmp_path / place).stdout.splitlines()[-1].endswith(f"{tmp_path / place} && dvc repro")


def test_the_readme_of_a_text_project_makes_the_tokenizer_before_the_plan(tmp_path: Path) -> None:
    for name in ("text", "chess"):
        create(tmp_path / name, [name])
    text, chess = ((tmp_path / name / "README.md").read_text() for name in ("text", "chess"))
    assert 0 < text.index("dvc repro tokenizer") < text.index("outofcore plan text")
    assert "tokenizer" not in chess


@pytest.mark.parametrize("section", ["source", "filters", "splits", "store", "tensors", "tokenizer"])
def test_the_pages_list_where_a_project_differs_from_a_call(section: str) -> None:
    page = (ROOT / "docs/projects.md").read_text()
    listed = dict(re.findall(r"^\| `(\w+\.\w+\.\w+)` \| (.*?) \|$", page, re.MULTILINE))
    for name in ORDER:
        kind, own = get_domain(name).section, load_params(ROOT / "params.yaml").section(name)
        before = kind.model_validate({"raw": "x"}).model_dump(mode="json").get(section, {})
        after = own.model_dump(mode="json").get(section, {})
        differ = {f"{name}.{section}.{key}" for key in after if before[key] != after[key]}
        assert differ == {key for key in listed if key.startswith(f"{name}.{section}.")}
        for key in differ - {"neural.source.names", "neural.source.bin_width"}:
            last = key.rpartition(".")[2]
            stated = [yaml.safe_load(each) for each in listed[key].split(" | ")]
            assert stated == [before[last], after[last]], key


def test_the_explained_machine_file_changes_nothing_and_names_every_setting(tmp_path: Path) -> None:
    create(tmp_path, ["go"])
    file = tmp_path / "machine.yaml"
    assert not [origin for origin in load_machine(tmp_path, {}).origins.values() if "machine.yaml" in origin]
    lines = [line.removeprefix("# ") for line in file.read_text().splitlines() if line.startswith("# ")]
    stated = yaml.safe_load("\n".join(line for line in lines if line.partition(":")[0] in SETTINGS))
    assert set(stated) == set(SETTINGS)
    file.write_text(yaml.safe_dump(stated))
    assert load_machine(tmp_path, {}).workers == 4


def test_a_second_time_nothing_changes(tmp_path: Path) -> None:
    create(tmp_path / "p", ["chess", "text"])
    before = files(tmp_path / "p")
    result = call("init", tmp_path / "p", "--domains", "text,chess")
    assert result.stdout.splitlines()[0] == "nothing to write: the project is complete"
    call("init", tmp_path / "p")  # the domains that are there
    assert files(tmp_path / "p") == before


def test_no_file_is_overwritten_and_each_is_named(tmp_path: Path) -> None:
    mine = {
        "README.md": "mine\n",
        "requirements.txt": "numpy\n",
        "stages/train.py": "print()\n",
        "machine.yaml": "workers: 1\n",
    }
    for name, text in mine.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    told = call("init", tmp_path, "--domains", "chess").stdout
    assert {name: (tmp_path / name).read_text() for name in mine} == mine
    for name in mine:
        assert len([line for line in told.splitlines() if line.startswith(f"kept     {name}")]) == 1
    lacks = rf"kept     requirements.txt: lacks outofcore\[chess,project\]( @ \S+ # )?=={__version__}"
    assert re.search(lacks, told)


def test_ignore_files_get_what_they_lack(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("/mine\n__pycache__/")
    entries = {each.path: each for each in create(tmp_path, ["chess"])}
    assert entries[".gitignore"].action == "changed"
    lines = (tmp_path / ".gitignore").read_text().splitlines()
    assert lines[:3] == ["/mine", "__pycache__/", "/.venv/"]
    assert lines.count("__pycache__/") == 1
    assert create(tmp_path, ["chess"]) == []


def test_params_that_were_changed_stay(tmp_path: Path) -> None:
    create(tmp_path, ["chess"])
    file = tmp_path / "params.yaml"
    file.write_text(file.read_text().replace("raw: data/sample/chess", "raw: /games"))
    create(tmp_path, ["chess", "go"])
    assert load_params(file).section("chess").raw == "/games"
    assert load_params(file).domains == ("chess", "go")
    create(tmp_path, ["go"])  # a section that no domain needs any more stays
    assert load_params(file).domains == ("chess", "go")


def test_the_sample_leaves_a_project_on_own_input(tmp_path: Path) -> None:
    create(tmp_path, ["chess", "go"])
    file = tmp_path / "params.yaml"
    for domains, left in ((("chess",), ["sample@go"]), (("chess", "go"), [])):
        for name in domains:
            file.write_text(file.read_text().replace(f"raw: data/sample/{name}", f"raw: /mnt/{name}"))
        assert [each.path for each in create(tmp_path, ["chess", "go"])] == ["dvc.yaml"]
        names = dvc(tmp_path, "stage", "list", "--name-only").stdout.split()
        assert [name for name in names if name.startswith("sample")] == left
        assert "check@chess" in names
    assert create(tmp_path, ["chess", "go"]) == []


def test_the_evaluation_depends_on_the_store_that_it_reads(tmp_path: Path) -> None:
    create(tmp_path, ["chess", "text"])
    file = tmp_path / "params.yaml"
    file.write_text(file.read_text().replace("evaluate: data/stores/chess.zarr", "evaluate: fixed.zarr"))
    assert create(tmp_path, ["chess", "text"]) == []
    (tmp_path / "fixed.zarr").mkdir()
    assert "fixed.zarr" in dvc(tmp_path, "status", "evaluate@chess").stdout
    assert "fixed.zarr" not in dvc(tmp_path, "status", "evaluate@text").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--domains", "ches"), "no domain 'ches'; there are chess, go, "),
        (("--domains", ""), "expected --domains with one or more of chess, go, "),
        ((), "expected --domains with one or more of chess, go, "),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    result = call("init", tmp_path / "p", *arguments, code=2)
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "p").exists()


def test_a_cache_that_stores_everything_twice_is_told(tmp_path: Path) -> None:
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/config").write_text("[core]\n    no_scm = true\n")
    told = {each.path: each.note for each in create(tmp_path, ["chess"])}
    assert told[".dvc"] == "copies data; to link it: dvc config cache.type hardlink,symlink"
    assert (tmp_path / ".dvc/config").read_text() == "[core]\n    no_scm = true\n"


def test_a_project_that_comes_to_git_later(tmp_path: Path) -> None:
    create(tmp_path, ["text"])
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    for name in (
        "data/stores/text.zarr/seal.json",
        "models/text/x",
        "data/tokenizers/text.json",
        "data/raw/text/a.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "data/raw/text.dvc").touch()
    added = subprocess.run(["git", "add", "-A", "-n"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert "data/raw/text.dvc" in added
    assert "data/tokenizers/given/README.md" in added
    for name in ("data/stores", "models", "text.json", "a.txt", "machine.yaml"):
        assert name not in added
    told = {each.path: each.note for each in create(tmp_path, ["text"])}
    assert told == {".dvc": "is set up without Git; to use it: dvc config --unset core.no_scm"}
    assert dvc(tmp_path, "config", "--unset", "core.no_scm").returncode == 0
    assert create(tmp_path, ["text"]) == []


def test_a_clone_becomes_a_project_of_one_domain(tmp_path: Path) -> None:
    for name in ("dvc.yaml", "dvc.lock", "params.yaml", ".dvc/config"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ORDER:
        (tmp_path / "src/outofcore/domains" / name).mkdir(parents=True)
    before = files(tmp_path)
    told = {each.path: each.action for each in create(tmp_path, ["chess"])}
    assert told["dvc.yaml"] == "changed"
    assert (tmp_path / "dvc.yaml").read_text() == definition(["chess"], sources=True, sampled=["chess"])
    create(tmp_path, ORDER)
    assert before.items() <= files(tmp_path).items()  # what others have run, and all settings, stay


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "dvc.yaml",
            "stages: {mine: {cmd: ls}}\n",
            "expected none, or the one that outofcore init wrote, found another",
        ),
        ("params.yaml", "lr: 0.1\n", "expected sections of domains only, found lr"),
        ("params.yaml", "{go: {raw: a}}\n", "expected one section below the other, as in 'go:', to add chess"),
        (".dvc/config", "[core\n", "expected settings of DVC"),
        ("stages", "", "stages: expected a folder, found a file"),
        ("README.md/a", "", r"README\.md: expected a file, found a folder"),
        ("params.yaml", "chess: [\n", "expected YAML"),
        ("params.yaml", "- chess\n", "expected sections of domains, got list"),
        ("dvc.yaml", "stages: {sample: {foreach: {1: {raw: a}, chess: {raw: b}}}}\n", "found another; name another"),
    ],
)
def test_what_is_not_of_a_project_is_refused_before_anything_is_written(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    with pytest.raises(ParamsError, match=message) as error:
        create(tmp_path, ["chess"])
    assert len(str(error.value).splitlines()) == 1
    assert files(tmp_path) == {name: text.encode()}


@pytest.mark.parametrize("text", ['"go": {raw: a}\n', "? go\n: {raw: a}\n"], ids=["quoted", "key"])
def test_a_section_in_another_form_is_not_written_twice(tmp_path: Path, text: str) -> None:
    (tmp_path / "params.yaml").write_text(text)
    create(tmp_path, ["chess", "go"])
    params_here = load_params(tmp_path / "params.yaml")
    assert params_here.domains == ("go", "chess")
    assert params_here.section("go").raw == "a"


def test_a_file_that_differs_is_no_complete_project(tmp_path: Path) -> None:
    create(tmp_path, ["chess"])
    file = tmp_path / "dvc.yaml"
    file.write_text(f"# Ours.\n{file.read_text()}")
    told = call("init", tmp_path).stdout.splitlines()
    assert told[0] == "kept     dvc.yaml: differs from what this version writes"
    assert told[1] == f"to take those of this version instead: rm {file} && outofcore init {tmp_path} --domains chess"
    assert told[2].startswith("next: ")


def test_a_project_of_an_earlier_version_is_renewed_by_the_commands_that_are_shown(tmp_path: Path) -> None:
    create(tmp_path, ["chess"])
    now = files(tmp_path)
    (tmp_path / "dvc.yaml").write_text(now["dvc.yaml"].decode().replace("  evaluate:", "  assess:"))
    (tmp_path / "stages/train.py").write_text("print('of then')\n")
    (tmp_path / "stages/evaluate.py").unlink()
    (tmp_path / "requirements.txt").write_text("outofcore[chess]==0.0.1\n")
    params = tmp_path / "params.yaml"
    params.write_text(params.read_text().replace("min_plies: 1", "min_plies: 2"))
    with pytest.raises(ParamsError, match="or remove it: this command then writes that of this version"):
        create(tmp_path, ["chess", "go"])
    told = call("init", tmp_path).stdout.splitlines()
    assert told[:4] == [
        "kept     dvc.yaml: differs from what this version writes",
        "kept     stages/train.py: not the one of this version",
        "new      stages/evaluate.py",
        "changed  requirements.txt",
    ]
    removing, _, again = told[4].removeprefix("to take those of this version instead: rm ").partition(" && ")
    for name in removing.split():
        Path(name).unlink()
    call(*again.split()[1:])
    assert files(tmp_path) == {**now, "params.yaml": params.read_bytes()}


def test_a_domain_of_another_package_has_its_defaults(tmp_path: Path) -> None:
    assert "lines" in DOMAINS
    create(tmp_path, ["lines", "chess"])
    assert load_params(tmp_path / "params.yaml").section("lines").raw == "data/sample/lines"
    stages = yaml.safe_load((tmp_path / "dvc.yaml").read_text())["stages"]
    assert list(stages["sample"]["foreach"]) == ["chess", "lines"]


def test_requirements_name_the_extras_and_versions_of_all_domains_of_the_project(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    for names, extras in ((["lines"], ""), (["chess", "lines"], "chess,"), (["chess", "go", "lines"], "chess,go,")):
        create(tmp_path, names)
        text = file.read_text()
        assert re.match(rf"outofcore\[{extras}project\]( @ \S+ # )?=={__version__}\n", text)
        for each in ("zarr", "numcodecs", *(["chess", "pyarrow"] if "chess" in names else [])):
            assert f"\n{each}=={version(each)}\n" in text
    assert f"\ndvc=={version('dvc')}\n" in text
    file.write_text(f"{text}numpy\n")
    create(tmp_path, ["chess", "go", "lines", "text"])
    assert file.read_text() == f"{text}numpy\n"
