"""What a pipeline run would write, where, and whether it fits, without writing anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outofcore.conversion.estimate import ConversionForecast, Estimate, forecast_conversion
from outofcore.conversion.journal import NOT_STORED
from outofcore.display.table import DisplayTable
from outofcore.domains.domain import Domain
from outofcore.domains.planning import Outlook
from outofcore.domains.reading import RAW, Streaming
from outofcore.errors import StoreError
from outofcore.project.entries import STORES, project_store, searches_of
from outofcore.raw.files import RawFile, Search
from outofcore.settings.hardware import usable_memory
from outofcore.settings.machine import Machine
from outofcore.settings.yaml_text import parse_yaml
from outofcore.space.filesystems import filesystem_of, folder_bytes
from outofcore.space.forecast import Demand, Need, demands, experiment_needs, kept_free, training_needs
from outofcore.space.links import Commit, commit_of
from outofcore.store.reader import Store, open_store
from outofcore.training.results import SavedBytes

if TYPE_CHECKING:
    from outofcore.training.memory_forecast import Fit

MODELS = Path("models")
PLOTS = Path("plots")


@dataclass(frozen=True)
class DomainPlan:
    """What converting and training one domain would write."""

    domain: str
    row: str  # name of a row
    files: int  # raw files
    estimate: Estimate
    saved: SavedBytes | None  # what training saves; None where the task needs a store
    commit: Commit | None  # DVC's handling of the store; None without DVC
    needs: tuple[Need, ...]
    memory: int = 0  # bytes that the conversion takes beyond those of the interpreter; 0 if there is none
    training: Fit | None = None  # whether training fits; None where the task needs a store
    tables: tuple[DisplayTable, ...] = ()  # about training, and the domain's own
    # files in the raw folder that will not be read: reason by name
    left_out: Mapping[str, str] = field(default_factory=dict)
    done: tuple[str, ...] = ()  # entries of the raw input whose stores are here, made with these settings


@dataclass(frozen=True)
class Plan:
    """What a run would write."""

    domains: tuple[DomainPlan, ...]
    demands: tuple[Demand, ...]  # of all domains together, by filesystem

    @property
    def empty(self) -> tuple[DomainPlan, ...]:
        """Domains whose sampled records are all rejected: their conversion would fail."""
        return tuple(domain for domain in self.domains if domain.estimate.rejected and not domain.estimate.rows)

    @property
    def fits(self) -> bool:
        return all(demand.fits for demand in self.demands)

    @property
    def runs(self) -> bool:
        """Whether nothing that is known now would stop the run."""
        return self.fits and not self.empty


def plan_domain(
    domain: Domain,
    section: Any,
    store: Path,
    machine: Machine,
    commit: Commit | None = None,
    *,
    ranks: int = 1,
    sizes: bool = False,
) -> DomainPlan:
    """Estimate a domain's store from a sample of its input, DVC's commit of it, and a training with these ranks.

    ``store`` is its folder; ``sizes`` adds what other sizes of the model take, which takes seconds for each.
    """
    searched = searches_of(domain, section)
    done = _done(domain, section, searched)
    searches = [search for entry, search in searched.items() if entry not in done]
    files = [file for search in searches for file in search.files]
    if isinstance(domain, Streaming) and domain.streamed(section):
        files = list(domain.raw_files(section))
        conversion = ConversionForecast(Estimate(0, 0, sum(file.bytes for file in files), 0), ())
    elif not searches:
        conversion = ConversionForecast(Estimate(0, 0, 0, 0), ())
    else:
        # DVC removes a stage's outputs before running it, so only its own copy takes space.
        replaced = folder_bytes(store) if commit and commit.in_workspace == "copy" and not done else 0
        conversion = forecast_conversion(domain, section, files, store, machine, commit, replaced)
    expected, needs = conversion.estimate, conversion.needs
    training = saved = None
    tables: tuple[DisplayTable, ...] = ()
    if domain.planned_task() is not None:
        whole = replace(
            expected,
            rows=expected.rows + sum(sum(one.attributes["rows"].values()) for one in done.values()),
            sequences=expected.sequences + sum(sum(one.attributes["sequences"].values()) for one in done.values()),
        )
        training, tables, saved = _training(domain, section, machine, files, whole, commit, store, ranks, sizes=sizes)
        needs += training_needs(MODELS / domain.name, PLOTS / domain.name, *saved, commit)
    return DomainPlan(
        domain=domain.name,
        row=domain.row,
        files=len(files),
        estimate=expected,
        saved=saved,
        commit=commit,
        needs=needs,
        memory=conversion.memory_bytes,
        training=training,
        tables=tables,
        left_out={name: reason for search in searches for name, reason in search.left_out.items()},
        done=tuple(done),
    )


def _done(domain: Domain, section: Any, searched: Mapping[str, Search]) -> dict[str, Store]:
    """The stores of entries of ``raw`` that are here, made with these settings of files of these names and sizes."""
    settings, done = section.model_dump(mode="json", exclude=NOT_STORED), {}
    for entry in filter(None, searched):
        with suppress(StoreError):
            store = open_store(project_store(domain) / f"{entry}.zarr")
            made_of = store.sources.read()
            before = list(zip(made_of["name"], made_of["bytes"], strict=True))
            files = searched[entry].files
            now = [(file.name, file.bytes) for file in files]
            if (
                store.attributes.get("params") == settings
                and before == now
                and _described(domain, section, files, store)
            ):
                done[entry] = store
    return done


def _described(domain: Domain, section: Any, files: Sequence[RawFile], store: Store) -> bool:
    """Whether a store has the attributes that a conversion would give it, such as the tokenizer of a text."""
    return all(
        store.part_attributes(part).items() >= dict(schema.attributes).items()
        for part, schema in domain.schemas(section, files).items()
    )


def _training(
    domain: Domain,
    section: Any,
    machine: Machine,
    files: Sequence[RawFile],
    expected: Estimate,
    commit: Commit | None,
    store: Path,
    ranks: int,
    *,
    sizes: bool,
) -> tuple[Fit, tuple[DisplayTable, ...], SavedBytes]:
    """Whether training fits, tables about it, and what it saves."""
    from outofcore.training.loaders import BALANCED, refuse_ranks
    from outofcore.training.memory_forecast import Forecast, fit_of, parts_table, sizes_table

    schemas = domain.schemas(section, files)
    forecast = Forecast(domain, section, schemas, expected.rows, machine, expected.sequences, ranks)
    usable = usable_memory().value
    if forecast.way == RAW:
        refuse_ranks(ranks, f"{domain.name}.mode: stream", "use one, or mode store")
    if forecast.model.balanced:
        refuse_ranks(ranks, BALANCED)
    fit = fit_of(forecast, usable, accelerator=_own_memory(machine.device))
    tables = [parts_table(forecast, fit), *([sizes_table(forecast)] if sizes else [])]
    disk = filesystem_of(store)
    outlook = Outlook(
        files=files,
        machine=machine,
        memory=machine.memory if "memory" in machine.stated else usable,  # all of it unless a limit is set
        free_bytes=max(0, disk.free() - kept_free(disk, machine.disk_reserve)),
        store_copies=1 + commit.copies_made if commit and filesystem_of(commit.cache.objects) == disk else 1,
        loaders=forecast.loaders_of,
        takes=forecast.takes,
        sizes=sizes,
    )
    tables += domain.plan(section, outlook)
    return fit, tuple(tables), SavedBytes(forecast.model.model, forecast.model.optimizer)


def _own_memory(device: str) -> bool:
    """Whether the model is in memory other than the machine's: not on MPS, which shares it."""
    import torch

    return device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())


def plan_run(domains: Sequence[DomainPlan], machine: Machine, experiments: int = 0) -> Plan:
    """Sum what the domains need by filesystem, for this many experiments at a time; 0 for one run here."""
    needs = [need for domain in domains for need in domain.needs]
    commits = [domain.commit for domain in domains if domain.commit]
    if experiments and commits:
        cache = commits[0].cache
        size = sum(domain.estimate.store_bytes + (domain.saved.weights if domain.saved else 0) for domain in domains)
        inside = commit_of(cache.experiments / "workspace" / STORES, cache)
        needs = list(experiment_needs(size, inside, _stated_bytes(cache.project / "dvc.lock"), experiments))
    return Plan(tuple(domains), demands(needs, margin=machine.disk_margin, reserve=machine.disk_reserve))


def _stated_bytes(lock: Path) -> int:
    """Bytes of all outputs in ``dvc.lock``, as checked out by a fresh workspace; 0 if it is unreadable."""
    try:
        stages = parse_yaml(lock.read_text("utf-8"))["stages"].values()
        return sum(out.get("size", 0) for stage in stages for out in stage.get("outs", ()))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return 0
