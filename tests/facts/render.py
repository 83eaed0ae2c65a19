"""A topology in the shape that nvidia-smi prints it, for tests and for made-up nodes."""

from fleet.nodes.topology import SELF, Topology

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


def render_topology(topology: Topology, nics: int = 0) -> str:
    """What `nvidia-smi topo -m` of a recent driver would print for this topology, with `nics` far NICs."""
    names = [f"GPU{i}" for i in range(topology.gpus)]
    nic_names = [f"NIC{i}" for i in range(nics)]
    lines = ["\t".join(["", *names, *nic_names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for name, links, numa, cpus in zip(names, topology.links, topology.numa, topology.cpu_affinity, strict=True):
        cells = [f" {SELF} " if cell == SELF else cell for cell in links]
        node = "N/A" if numa is None else str(numa)
        lines.append("\t".join([name, *cells, *["SYS"] * nics, cpus or "", node, "", "N/A"]))
    for i, name in enumerate(nic_names):
        cells = ["SYS"] * topology.gpus + [f" {SELF} " if i == j else "PIX" for j in range(nics)]
        lines.append("\t".join([name, *cells, "", "", "", ""]))
    return "\n".join(lines) + "\n" + LEGEND
