"""`make clean`: end the labs of this checkout and remove what they cached."""

import sys

from lab import clean, host


def main() -> None:
    """Interfaces, mounts, namespaces, processes, files under /run, and the cached root file system."""
    try:
        left = clean.end_ours()
    except host.LabError as error:
        print(f"no lab to end here: {error}")
        return
    except (OSError, TimeoutError) as error:
        sys.exit(f"a lab could not be ended: {error}")
    for record in left:
        print(f"lab {record.name} of {record.state.parent.parent} runs and was left alone, with the cache that it uses")
    print("no lab of this checkout runs" if left else "no lab runs, and its caches are gone")


if __name__ == "__main__":
    main()
