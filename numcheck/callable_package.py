# SPDX-License-Identifier: Apache-2.0
"""A package that is also the function of its name.

`numcheck.diagnose` is both: the function a user calls, and the package its parts are
imported from. Importing any part makes Python bind the package to that name in
`numcheck`, so the package itself must answer a call.
"""

from __future__ import annotations

import types
from typing import Any

__all__ = ["CallablePackage"]


class CallablePackage(types.ModuleType):
    """Passes a call on to the package's member that bears the package's name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the member's own
        """Call the member; see it for arguments and results."""
        function = getattr(self, self.__name__.rpartition(".")[2])
        return function(*args, **kwargs)
