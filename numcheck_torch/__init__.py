# SPDX-License-Identifier: Apache-2.0
"""The PyTorch adapter of numcheck."""
