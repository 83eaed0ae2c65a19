"""Can the GPUs of a TP group use the engine's own all-reduce?"""

from fleet.gate import gate
from fleet.known import layout_of
from fleet.plan import Plan, only_pairs
from fleet.verdict import Finding


@gate(
    "custom-all-reduce",
    reads="layout, nvlink_islands of the inventory",
    remedy="set disable_custom_all_reduce of {service} to auto or true",
)
def custom_all_reduce(plan: Plan) -> Finding | None:
    """Custom all-reduce is off at TP 2 on a node whose NVLink joins only pairs.

    Otherwise the capture of CUDA graphs dies with "invalid argument" (seen on 8 x A100). With more than two GPUs that
    are not all joined, the engine turns it off by itself.
    """
    if layout_of(plan).tp != 2 or not only_pairs(plan.node) or plan.disable_custom_all_reduce:
        return None
    return Finding(
        want="--disable-custom-all-reduce at TP 2 on NVLink pairs",
        got='custom all-reduce left on, with which graph capture dies ("invalid argument")',
    )
