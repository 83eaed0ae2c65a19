"""A line `stuck WORD<tab>PLACE<tab>PATH`: what hinders writing at a path, as frame.sh tells it."""


def stuck(value: str) -> tuple[str, str]:
    """The path, and why nothing can be written there. ValueError where the line has another form."""
    word, at, path = value.split("\t")
    return path, f"{at}, which is no folder" if word == "none" else f"{at}, which cannot be written (is it read-only?)"
