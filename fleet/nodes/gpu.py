"""What a GPU model is known for, by the name that nvidia-smi prints."""

import re

_MEMORY_GB_PER_S: tuple[tuple[str, int], ...] = (
    (r"GB[23]00|B[23]00", 8000),
    (r"B100", 8000),
    (r"GH200.*(480|96)GB|GH200", 4000),
    (r"H200", 4800),
    (r"H100 NVL", 3900),
    (r"H100.*PCIe", 2000),
    (r"H100", 3350),
    (r"H20\b", 4000),
    (r"H800", 3350),
    (r"A100.*PCIe-40GB|A100.*40GB", 1555),
    (r"A100.*PCI", 1935),
    (r"A[18]00", 2039),
    (r"A30\b", 933),
    (r"A40\b", 696),
    (r"A10G?\b", 600),
    (r"L40S?\b", 864),
    (r"L4\b", 300),
    (r"V100", 900),
    (r"T4\b", 320),
    (r"P40\b", 347),
    (r"RTX PRO 6000", 1792),
    (r"RTX 6000 Ada", 960),
    (r"RTX A6000", 768),
    (r"RTX 5090", 1792),
    (r"RTX 4090", 1008),
    (r"RTX 3090", 936),
    (r"GB10\b", 273),
    (r"MI300X", 5300),
    (r"MI325X", 6000),
)
"""Memory bandwidth by the vendors' data sheets, GB/s (10^9 bytes). The first pattern that matches counts."""


def memory_bandwidth(model: str) -> int | None:
    """Memory bandwidth of a GPU in bytes a second, by its data sheet; None for a model that is not listed."""
    return next((rate * 10**9 for pattern, rate in _MEMORY_GB_PER_S if re.search(pattern, model, re.IGNORECASE)), None)
