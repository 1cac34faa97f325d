"""Commands about a DVC project and its disks: ``plan``, ``init``, ``committed``, ``clear-cache``."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from outofcore.cli.output import EXIT_WRONG, AsJson, begin, console, print_json
from outofcore.display.console import large_imports, one_line_errors, visible
from outofcore.errors import ParamsError
from outofcore.inspect import terminal
from outofcore.space.dvc_cache import committed as check_committed
from outofcore.space.dvc_cache import find_cache


def plan(
    domains: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DOMAINS | DOMAIN RAW [STORE]]",
            help="Domains, all of params.yaml by default; or one, raw files, and the folder of their store.",
        ),
    ] = None,
    *,
    params: Annotated[Path | None, typer.Option(help="A params file; params.yaml, but none with RAW.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("-S", "--set", help="With RAW: a setting, such as filters.min_elo=2000.")
    ] = None,
    experiments: Annotated[
        int,
        typer.Option(min=0, help="Experiments side by side, each in a workspace of its own (--temp, --queue)."),
    ] = 0,
    ranks: Annotated[int, typer.Option(min=1, help="Processes that train together here (torchrun).")] = 1,
    sizes: Annotated[bool, typer.Option("--sizes", help="Also show what models of other sizes take.")] = False,
    as_json: AsJson = False,
) -> None:
    """Forecast what 'dvc repro' would write, where, and whether it fits; exit code 1 if not.

    With RAW, the forecast is of 'outofcore convert' and 'outofcore train' in this folder, or of a store elsewhere.

    A sample of the real input is converted in memory; nothing is kept on disk, nor the tokenizer that is
    learnt for RAW of text.

    \b
    Examples:
      outofcore plan
      outofcore plan chess --sizes
      outofcore plan chess games/ -S filters.min_elo=2000
      outofcore plan chess games/ /big/disk/chess.zarr
      OUTOFCORE_DISK_MARGIN=0.5 outofcore plan --experiments 4
    """
    with one_line_errors(resumes=False):
        begin("plan: a sample of the input is converted in memory, nothing is written")
        from outofcore.domains.registry import DOMAINS, get_domain
        from outofcore.params import given_settings, load_params, raw_settings, section_of
        from outofcore.settings.machine import load_machine

        machine, cache = load_machine(), find_cache()
        raw = domains[1] if domains and len(domains) in (2, 3) and domains[1] not in DOMAINS else None
        store = Path(domains[2]) if domains and raw is not None and len(domains) == 3 else None
        if raw is None and setting:
            raise ParamsError("-S: expected DOMAIN and RAW with it; the settings of a project are in its params file")
        with large_imports():
            from outofcore.plan import plan_domain, plan_run
            from outofcore.project.entries import project_store
            from outofcore.project.locked import refuse_earlier_tokenizer
            from outofcore.space.links import commit_of
            from outofcore.system.durable import TemporaryFolder

        if domains and raw is not None:
            given, cache = given_settings(setting or [], domains[:1]), None
            sections = {domains[0]: section_of(domains[0], "plan", params, {**given, **raw_settings(raw, given)})}
        else:
            file = params or Path("params.yaml")
            settings = load_params(file)
            if not (names := domains or settings.domains):
                raise ParamsError(f"{file}: expected a section of a domain, found none")
            sections = {name: settings.section(name) for name in names}
            if "text" in sections:
                refuse_earlier_tokenizer(sections["text"], file.with_name("dvc.lock"))
        with terminal.waiting() as tell, ExitStack() as learnt:
            planned = []
            for name, stated in sections.items():
                tell(f"{name}: converting a sample of the input")
                domain, section = get_domain(name), stated
                if raw is not None and params is None:
                    folder = TemporaryFolder()
                    learnt.callback(folder.remove)
                    section = domain.prepared(stated, str(folder.path / name))
                place = store or project_store(domain)
                commit = commit_of(place, cache) if cache else None
                planned.append(plan_domain(domain, section, place, machine, commit, ranks=ranks, sizes=sizes))
        forecast = plan_run(planned, machine, experiments)
        if as_json:
            print_json(terminal.plan_facts(forecast, machine))
        else:
            terminal.print_plan(console(), forecast, machine)
        if not forecast.runs:
            raise typer.Exit(EXIT_WRONG)


def init(
    folder: Annotated[Path, typer.Argument(help="Folder of the project; created if missing.")],
    *,
    domains: Annotated[
        str | None, typer.Option(help="Domains, such as chess or chess,text; by default those of the project.")
    ] = None,
) -> None:
    """Write a DVC project for some domains: dvc.yaml, params.yaml, stages/, .dvc. It runs on a small sample at once.

    Files that exist are kept. In a project that this command wrote, or in a clone of outofcore, the domains change.

    \b
    Examples:
      outofcore init my-games --domains chess
      outofcore init . --domains chess,text
    """
    with one_line_errors(resumes=False):
        from outofcore.domains.registry import DOMAINS
        from outofcore.project.create import create, domains_of, in_repository

        names = tuple(filter(None, domains.split(","))) if domains is not None else domains_of(folder)
        if not names:
            raise ParamsError(f"expected --domains with one or more of {', '.join(DOMAINS)}, such as --domains chess")
        entries = create(folder, names)
        terminal.print_project(console(), folder, names, entries, git=in_repository(folder))


def committed(
    targets: Annotated[list[str] | None, typer.Argument(help="Stages or paths to check; all by default.")] = None,
    *,
    folder: Annotated[Path, typer.Option(help="Any folder of a DVC project.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Check that DVC's cache holds what dvc.lock states ('dvc data status'); exit code 1 if not.

    What is neither in the cache nor in the workspace was never run or pulled here; that is an error only for targets
    that you name.

    \b
    Examples:
      dvc repro && outofcore committed
      dvc repro convert@chess && outofcore committed convert@chess
      outofcore committed && dvc push
    """
    with one_line_errors(resumes=False):
        state = check_committed(folder, targets or ())
        print_json(asdict(state)) if as_json else terminal.print_committed(console(), state)
        if state.lacking or (targets and state.absent):
            raise typer.Exit(EXIT_WRONG)


def clear_cache() -> None:
    """Remove what the folder of the machine's setting s3_cache keeps of stores in object storage, and nothing else.

    \b
    Examples:
      outofcore clear-cache
      OUTOFCORE_S3_CACHE=/fast/cache outofcore clear-cache
    """
    with one_line_errors(resumes=False):
        from outofcore.settings.machine import load_machine
        from outofcore.settings.sizes import format_bytes
        from outofcore.store.remote_cache import clear

        folder = load_machine().s3_cache
        if folder is None:
            raise ParamsError("s3_cache: expected a folder in machine.yaml or OUTOFCORE_S3_CACHE, it is not set")
        stores, freed = clear(folder)
        typer.echo(f"{visible(str(folder))}: removed {stores} store{'s' * (stores != 1)}, {format_bytes(freed)} freed")
