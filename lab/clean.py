"""What `make clean` does to labs: those of this checkout end, those of another checkout that run are left alone."""

from lab import host, node, state
from lab.lab import Lab


def end_ours() -> list[state.Record]:
    """End every lab that this checkout started and every lab that died; the records of those that are left.

    With none left, what all labs of the machine share goes too: the guard route, cgroups, /run/vllm-fleet-lab, and the
    cache of root file systems and images. LabError where this machine cannot run labs.
    """
    host.require_fit()
    for name in state.names():
        with state.exclusive(name):
            if not _belongs_to_others(name):
                Lab(name).remove()
    left = state.running()
    if not left:
        host.clean_everything(cache=True)
    return left


def _belongs_to_others(name: str) -> bool:
    """Does a lab of that name run that another checkout started? A record that cannot be read is of nobody."""
    try:
        record = state.read(name)
    except host.LabError:
        return False
    if record is None or record.state == state.folder_of(name):
        return False
    return any(node.powered(name, found.name) for found in record.nodes)
