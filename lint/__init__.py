"""Checks that no linter knows: each module here is a program that `make lint` runs."""
