"""The real parser of `vllm serve`, asked over a pipe: one JSON list of words a line in, one JSON verdict a line out.

The line "dump" is answered with what dump.py prints.

Run by the engine's own interpreter. Importing vLLM takes 10 s of CPU, an answer 4 ms.
"""

import contextlib
import io
import json
import os
import sys

from dump import dump, serve_parser


def answer(parser, argv):
    """What `vllm` would do with these words, which begin with `vllm`: {"accepts": ..., "error": ...}."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            parser.parse_args(list(argv[1:]))
    except SystemExit as end:
        text = said.getvalue().strip().splitlines()
        return {"accepts": not end.code, "error": text[-1] if end.code and text else None}
    except Exception as error:
        return {"accepts": False, "error": f"{type(error).__name__}: {error}"}
    return {"accepts": True, "error": None}


def main():
    """Until the input ends."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what vLLM prints is no answer
    parser, _ = serve_parser()
    for line in sys.stdin:
        asked = json.loads(line)
        out.write(json.dumps(dump() if asked == "dump" else answer(parser, asked)) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
