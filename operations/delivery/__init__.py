"""Bringing checkpoints and images to nodes: look, decide, move, verify, place."""
