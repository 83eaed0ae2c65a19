"""Finds an answer that has fallen into a loop."""

REPEATS = 4
CHARACTERS = 40


def looped(text: str) -> str | None:
    """The passage that a text ends in, over and over, or None.

    It must stand there at least four times and fill at least 40 characters, so that neither an ellipsis nor a
    refrain counts. By characters, not words: not every language has spaces.
    """
    for length in range(1, len(text) // REPEATS + 1):
        passage = text[-length:]
        times = max(REPEATS, -(-CHARACTERS // length))
        if text.endswith(passage * times) and passage.strip():
            return passage.strip()
    return None
