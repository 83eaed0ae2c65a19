"""The same rollout by this project and by others, on the same lab, beside each other. See docs/bench.md."""
