"""A real vLLM on this machine, built for CPU: for engine tests, for dumps of its parser, and for lab hosts."""
