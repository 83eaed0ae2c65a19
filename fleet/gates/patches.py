"""Are the source changes that a service names there for its engine?"""

from fleet.engines.patch import unneeded
from fleet.gate import gate
from fleet.plan import Plan
from fleet.verdict import Finding


@gate(
    "patches",
    reads="patches/, image.engine",
    severity="fail or warn",
    remedy="name patches of {service} that are there for its engine, or write them: docs/patches.md",
)
def patches(plan: Plan) -> list[Finding]:
    """Each patch that the service names is there for exactly this engine version; an unneeded one is a warning.

    Whether the files in the image are those that it was written for is seen on the node, before anything stops.
    """
    if plan.patches_error is not None:
        return [Finding(want=f"the patches {', '.join(plan.service.patches)}", got=plan.patches_error)]
    return [
        Finding(
            want="no patch that the engine does without",
            got=f"{patch}, unneeded from {patch.unneeded_from}",
            warning=True,
        )
        for patch in plan.patches
        if unneeded(patch, plan.service.image.engine)
    ]
