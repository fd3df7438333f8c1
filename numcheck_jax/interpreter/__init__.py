# SPDX-License-Identifier: Apache-2.0
"""A jaxpr interpreter: one loop, an environment, and a table of small rules."""
