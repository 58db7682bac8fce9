"""Rows of sessions on PostgreSQL: each change finds, leaves and refuses what the port says."""

from __future__ import annotations

import pytest

from tests.service import test_session_rows as rows

pytestmark = pytest.mark.slow

globals().update({name: test for name, test in vars(rows).items() if name.startswith("test_")})
