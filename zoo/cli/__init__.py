"""The command ``zoo``."""

from zoo.cli.commands import app, main

__all__ = ["app", "main"]
