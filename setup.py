"""Puts the scripts of the pipeline, which the repository has in ``stages/``, into the wheel, and README on its page."""

import re
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SCRIPTS = ("check", "convert", "evaluate", "report", "sample", "tokenizer", "train")


class WithScripts(build_py):
    """Builds the package with ``outofcore/project/stages``."""

    def run(self) -> None:
        """Copy the scripts after the modules."""
        super().run()
        if not self.editable_mode:
            folder = Path(self.build_lib) / "outofcore/project/stages"
            folder.mkdir(parents=True, exist_ok=True)
            for name in SCRIPTS:
                self.copy_file(f"stages/{name}.py", str(folder))


def page() -> str:
    """README.md; links to files get the address of this version if pyproject.toml states that of the repository."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = Path("README.md").read_text(encoding="utf-8")
    if repository := project.get("urls", {}).get("Repository"):
        files = rf"{repository}/raw/v{project['version']}/\1", rf"{repository}/blob/v{project['version']}/\1"
        text = re.sub(r"(?<=\]\()((?!\w+:|#)[^)]*\.(?:svg|png))(?=\))", files[0], text)
        text = re.sub(r"(?<=\]\()((?!\w+:|#)[^)]*)(?=\))", files[1], text)
    return text


setup(cmdclass={"build_py": WithScripts}, long_description=page(), long_description_content_type="text/markdown")
