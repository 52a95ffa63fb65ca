"""`python -m ringwise`."""

from __future__ import annotations

from ringwise.cli.main import main

main()
