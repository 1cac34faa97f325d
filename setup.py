"""Puts the scripts of the pipeline, which the repository has in ``stages/``, into the wheel."""

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


setup(cmdclass={"build_py": WithScripts})
