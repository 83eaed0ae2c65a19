"""`make clean`: end every lab of this machine and remove what it cached."""

from rich.console import Console

from lab import host


def main() -> None:
    """Interfaces, mounts, namespaces, processes, files under /run, and the cached root file system."""
    out = Console()
    try:
        host.require_fit()
    except host.LabError as error:
        out.print(f"no lab to remove here ({error})")
        return
    host.clean_everything(cache=True)
    out.print("labs and their caches are gone")


if __name__ == "__main__":
    main()
