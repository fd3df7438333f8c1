# SPDX-License-Identifier: Apache-2.0
"""One small rule for each family of primitives."""
