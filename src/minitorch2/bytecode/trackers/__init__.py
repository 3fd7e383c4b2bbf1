"""Trackers: what is known of each Python value while a frame is evaluated; one kind a file.

Read `base`, `constant`, `tensor`, `sequence`, `functions`, `objects`, and then `build`.
"""
