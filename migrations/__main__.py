"""`python -m migrations`: bring the schema of the configured graph store up to date."""

from __future__ import annotations

import asyncio
import sys

from app.errors import AppError
from app.settings import load
from migrations import migrate


def main() -> int:
    try:
        settings = load()
        applied = asyncio.run(
            migrate(
                settings.graph_url,
                user=settings.graph_user,
                password=settings.graph_password.get_secret_value(),
                database=settings.graph_database,
            )
        )
    except AppError as error:
        print(f"error: {error.detail}", file=sys.stderr)
        return 1
    print("\n".join(f"applied {name}" for name in applied) or "the schema is up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
