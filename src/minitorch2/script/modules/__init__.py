"""Modules and functions that a user holds."""
