"""formatkit inside pyiceberg: `install()` and pyiceberg's own tables read and write every installed format."""

from formatkit.integrations.pyiceberg.installation import Installation, install, installed, uninstall

__all__ = ["Installation", "install", "installed", "uninstall"]
