"""From a bare machine to a node: look, decide, show, lock, do, look again."""
