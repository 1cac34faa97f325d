"""The files of a project, by its domains: what ``outofcore init`` writes."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from outofcore.domains.registry import get_domain
from outofcore.project.code import stated_versions
from outofcore.settings.yaml_text import parse_yaml
from outofcore.system.extras import load

# The order in which a project lists its domains; others follow by name.
ORDER = ("chess", "go", "text", "neural")
SCRIPTS = ("check", "sample", "convert", "train", "evaluate", "report")
REQUIREMENTS = "requirements.txt"
MOST_COLUMNS = 130  # of a line of params.yaml
_OWN = Path(__file__).parent
# A wheel holds the scripts of the repository; in the repository itself there is no second copy.
_SCRIPTS = next(path for path in (_OWN / "stages", _OWN.parents[2] / "stages") if path.is_dir())


def in_order(domains: Sequence[str]) -> tuple[str, ...]:
    """Domains as a project lists them, each once."""
    known = [name for name in ORDER if name in domains]
    return (*known, *sorted(set(domains) - set(ORDER)))


def definition(domains: Sequence[str], *, sources: bool, sampled: Sequence[str]) -> str:
    """``dvc.yaml``; with ``sources``, stages depend on the sources in the folder, else on the version of outofcore.

    ``sampled`` are the domains whose raw input is the small generated one.
    """
    # The template has another name: DVC reads every dvc.yaml below a project, an installed package's too.
    return _rendered("pipeline.yaml", domains=in_order(domains), sources=sources, sampled=in_order(sampled))


def sampled_of(params: str, domains: Sequence[str]) -> tuple[str, ...]:
    """The domains whose raw input is the small generated one, by ``params.yaml``."""
    content = parse_yaml(params) or {}
    raws = {name: content[name].get("raw") for name in domains if isinstance(content.get(name), dict)}
    return tuple(name for name, raw in raws.items() if raw == sample_of(name))


def sample_of(domain: str) -> str:
    """Where the stage ``sample`` writes."""
    return f"data/sample/{domain}"


def params(domains: Sequence[str]) -> str:
    """``params.yaml`` with the sections of these domains."""
    return "\n".join((_file("params.yaml"), *map(section, in_order(domains))))


def section(domain: str) -> str:
    """A domain's section of ``params.yaml``: all keys, as they are described in its types.

    Values are the defaults, or those in the file ``params.yaml`` of its package.
    """
    kind = get_domain(domain)
    path = Path(getattr(__import__(type(kind).__module__, fromlist=["_"]), "__file__", "")).with_name("params.yaml")
    stated = parse_yaml(path.read_text("utf-8"))[domain] if path.is_file() else {}
    values = kind.section.model_validate({"raw": sample_of(domain), "evaluate": f"data/stores/{domain}.zarr", **stated})
    return "\n".join((f"{domain}:", *_keys(values, "  "))) + "\n"


def _keys(values: BaseModel, margin: str) -> Iterator[str]:
    """The lines of a section: each key with its value and its description, next to it or, if that is long, above."""
    for name, key in type(values).model_fields.items():
        value, note = getattr(values, name), " ".join((key.description or "").split())
        if isinstance(value, BaseModel) and type(value).model_fields:
            yield from (f"{margin}{name}:{f' # {note}' if note else ''}", *_keys(value, f"{margin}  "))
            continue
        written = yaml.safe_dump({name: to_jsonable_python(value)}, default_flow_style=True, width=math.inf)
        line = f"{margin}{written.strip()[1:-1]}"
        choices = get_args(key.annotation) if get_origin(key.annotation) is Literal else ()
        if not all(str(choice) in note for choice in choices):
            note = f"{' | '.join(map(str, choices))}{'; ' if note else ''}{note}"
        if len(line) + len(note) > MOST_COLUMNS:
            yield from textwrap.wrap(note, MOST_COLUMNS, initial_indent=f"{margin}# ", subsequent_indent=f"{margin}# ")
            note = ""
        yield f"{line} # {note}" if note else line


def domains_in(text: str, stage: str = "check") -> tuple[str, ...]:
    """The domains of a ``dvc.yaml`` that have such a stage; none if it is not one of outofcore's."""
    try:
        domains = parse_yaml(text)["stages"][stage]["foreach"]
    except (ValueError, KeyError, TypeError):
        return ()
    return tuple(domains) if isinstance(domains, dict | list) and all(isinstance(one, str) for one in domains) else ()


def others(domains: Sequence[str], title: str, *, sources: bool) -> dict[str, str]:
    """The files next to ``dvc.yaml`` and ``params.yaml``, by path."""
    names = in_order(domains)
    files = {f"stages/{name}.py": _script(name) for name in SCRIPTS}
    if "text" in names:
        files["stages/tokenizer.py"] = _script("tokenizer")
        files["data/tokenizers/given/README.md"] = _file("given.md")
    if not sources:
        files[REQUIREMENTS] = requirements(names)
    return files | {
        "machine.yaml": _file("machine.yaml"),
        "README.md": _rendered("README.md", title=title, first=names[0]),
        # DVC names its outputs to Git where they are, but not in a project that comes to Git later.
        ".gitignore": _file("gitignore") + ("" if sources else _file("outputs")),
        ".dvcignore": _file("dvcignore"),
    }


def requirements(domains: Sequence[str]) -> str:
    """Requirements: outofcore with the extras of a project for these domains, and all else that decides their bytes."""
    extras = ",".join((*filter(None, (get_domain(name).extra for name in domains)), "project"))
    stated = {name: number for domain in domains for name, number in stated_versions(get_domain(domain)).items()}
    address = _installed_from()
    place = f" @ {address} # " if address else ""
    first = f"outofcore[{extras}]{place}=={stated.pop('outofcore')}\n"
    stated["dvc"] = version("dvc")  # it may not work with later ones
    return first + "".join(f"{name}=={stated[name]}\n" for name in sorted(stated))


def _installed_from() -> str:
    """The address that outofcore was installed from, as pip takes it; "" for an index of packages."""
    source = json.loads(distribution("outofcore").read_text("direct_url.json") or "{}")
    if "vcs_info" in source:
        return f"{source['vcs_info']['vcs']}+{source['url']}@{source['vcs_info']['commit_id']}"
    return str(source.get("url", ""))


def is_requirements(text: str) -> bool:
    """Whether requirements are those of some version for some domains, and nothing else."""
    return re.fullmatch(r"outofcore(\[[\w,]+\])?( @ \S+ # )?==\S+\n([\w.-]+==\S+\n)*", text) is not None


def dvc_files(*, git: bool) -> dict[str, str]:
    """The files of ``.dvc``."""
    return {
        ".dvc/.gitignore": "/config.local\n/tmp\n/cache\n",
        ".dvc/config": _file("config") if git else _file("config").replace("[core]\n", "[core]\n    no_scm = true\n"),
    }


def _script(name: str) -> str:
    return (_SCRIPTS / f"{name}.py").read_text("utf-8")


def _file(name: str) -> str:
    return (_OWN / "files" / name).read_text("utf-8")


def _rendered(name: str, **values: Any) -> str:
    jinja2 = load("jinja2", "project", "outofcore init")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("outofcore.project", "files"),
        autoescape=False,  # the texts are no markup
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        variable_start_string="<<",
        variable_end_string=">>",
    )
    return str(environment.get_template(name).render(values))
