"""vllm-standin: what the lab runs where a fleet runs vLLM.

It takes vLLM's argv and answers vLLM's HTTP interface, so that a rollout can be proven end to end on machines
without a GPU. It computes nothing: answers come from a hash of the prompt, and memory figures are made up.
Everything in this folder but `image.py` uses only what Debian's `python3-minimal` ships, because it runs inside
a small container image.
"""
