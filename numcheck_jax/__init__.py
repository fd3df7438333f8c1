# SPDX-License-Identifier: Apache-2.0
"""The JAX adapter of numcheck."""
