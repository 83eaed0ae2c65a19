"""`make docs`: write the generated pages anew."""

from pathlib import Path

from fleet.gate_page import markdown

PAGE = Path(__file__).resolve().parent.parent / "docs" / "gates.md"


def main() -> None:
    """docs/gates.md from the catalogue."""
    PAGE.write_text(markdown())


if __name__ == "__main__":
    main()
