"""Pages of the site that are not in this folder: the README as the first page, other texts of the project, the API."""

from __future__ import annotations

import re
import runpy
import tempfile
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=re.sub(r"\]\(docs/", "](", text)))
    with tempfile.TemporaryDirectory() as folder:
        api = runpy.run_path(str(ROOT / "stages" / "api.py"))
        api["main"](Path(folder))
        for path in sorted(Path(folder).rglob("*.*")):
            name = path.relative_to(folder).as_posix()
            files.append(File.generated(config, f"api/{name}", content=path.read_bytes()))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """A folder of sources is no page."""
    return re.sub(r"\[([^]]*)\]\(example/dna\)", r"\1", markdown)


def on_post_page(output: str, **_: object) -> str:
    """The theme's search has no name, which a screen reader would announce."""
    return output.replace('role="dialog">', 'role="dialog" aria-label="Search">')
