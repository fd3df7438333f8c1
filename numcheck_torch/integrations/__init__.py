# SPDX-License-Identifier: Apache-2.0
"""Thin doors into frameworks on top of PyTorch; each imports its framework on use."""
