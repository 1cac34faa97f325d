"""The curves of a training, as DVCLive writes them."""

from __future__ import annotations

from dvclive.live import Live
from scmrepo.exceptions import SCMError


class Curves(Live):
    """DVCLive that neither saves experiments nor writes ``dvc.yaml``; a Git repository may lack a first commit."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder, dvcyaml=False, save_dvc_exp=False)

    def _init_dvc(self) -> None:
        try:
            super()._init_dvc()
        except SCMError:  # the revision that it asks for first
            self._dvc_repo = None
            self._dvc_file = self._init_dvc_file()
