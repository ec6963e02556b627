"""The ways a command can end badly that the post-renderer does not know: Helm, clusters, folders, the installation."""

from __future__ import annotations

from postrender.errors import GrpoError, InputError


class RenderError(InputError):
    """Helm refused the chart or the values; the message is Helm's own, without its log lines."""

    @property
    def is_of_schema(self) -> bool:
        """Say whether a schema refused, and not the chart itself; both Helms use these words."""
        return "meet the specifications of the schema" in self.message


class OutputRefusedError(InputError):
    """A folder for output holds what this program did not write."""


class EngineError(GrpoError):
    """No Helm engine could be started, or it broke down."""


class ClusterError(GrpoError):
    """The cluster cannot be asked: no kubectl, no permission, no such pod."""


class InstallationError(GrpoError):
    """Files that belong to this package are missing or damaged."""
