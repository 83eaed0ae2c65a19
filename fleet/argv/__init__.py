"""Would `vllm serve` of a given version take this command line? Answered from data, without vLLM, in milliseconds.

words.py    what vLLM does to the words before argparse sees them: underscores, -O3, dotted keys, --config FILE
parser.py   argparse as vLLM uses it: prefixes, nargs, short flags, positionals
values.py   one word becomes a value: numbers, 1M, auto, JSON
configs.py  JSON arguments against the config that they build (pydantic's own core does it)
rules.py    the checks that vLLM's configs do in Python
check.py    all of it, as findings with what to write instead
"""
