"""Fixtures that several test modules share."""

pytest_plugins = ["pytester"]
