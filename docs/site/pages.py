"""Pages of the site that are no Markdown here: the README as the first page, other texts, notebooks, the API."""

from __future__ import annotations

import base64
import json
import re
import runpy
import tempfile
from collections.abc import Iterator
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
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content="\n\n".join(markdown_of(path))))
    with tempfile.TemporaryDirectory() as folder:
        api = runpy.run_path(str(ROOT / "stages" / "api.py"))
        api["main"](Path(folder))
        for path in sorted(Path(folder).rglob("*.*")):
            name = path.relative_to(folder).as_posix()
            files.append(File.generated(config, f"api/{name}", content=path.read_bytes()))
    return files


def markdown_of(notebook: Path) -> Iterator[str]:
    """The cells of a notebook with their outputs."""
    for number, cell in enumerate(json.loads(notebook.read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        yield source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"
        if number == 0:
            yield f"[This page as a notebook]({notebook.name})"
        for output in cell.get("outputs", ()):
            shown = {
                kind: "".join(lines) for kind, lines in output.get("data", {"text/plain": output.get("text")}).items()
            }
            if "image/png" in shown:
                yield f'<img alt="What the cell draws" src="data:image/png;base64,{shown["image/png"].strip()}">'
            elif "image/svg+xml" in shown:
                encoded = base64.b64encode(shown["image/svg+xml"].encode()).decode()
                yield f'<img alt="What the cell draws" src="data:image/svg+xml;base64,{encoded}">'
            else:
                yield shown.get("text/html") or f"```text\n{shown['text/plain']}\n```"


def on_page_markdown(markdown: str, **_: object) -> str:
    """A folder of sources is no page; a notebook is one; all others are in one folder."""
    markdown = re.sub(r"\[([^]]*)\]\(example/dna\)", r"\1", markdown)
    markdown = re.sub(r"\]\((notebooks/\w+)\.ipynb", r"](\1.md", markdown)
    return markdown.replace("](../CONTRIBUTING.md", "](CONTRIBUTING.md")


def on_post_page(output: str, **_: object) -> str:
    """The theme's search has no name, which a screen reader would announce."""
    return output.replace('role="dialog">', 'role="dialog" aria-label="Search">')
