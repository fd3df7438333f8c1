# SPDX-License-Identifier: Apache-2.0
"""``python -m numcheck`` is the command ``numcheck``."""

from __future__ import annotations

from numcheck.cli import main

if __name__ == "__main__":
    main()
