"""The NVIDIA driver of a node and what stands between it and a container, as steps of a bootstrap."""

import fnmatch
import re
from collections.abc import Iterable

from fleet.nodes.step import Needs, Refusal, Step

UNATTENDED = "/etc/apt/apt.conf.d/52vllm-fleet"
NEEDRESTART = "/etc/needrestart/conf.d/vllm-fleet.conf"
CDI = "/etc/cdi/nvidia.yaml"
CDI_UNIT = "/etc/systemd/system/vllm-fleet-cdi.service"
DRIVER = (
    "nvidia-(?!container|docker|cuda|cudnn)",
    "libnvidia-(?!container)",
    "lib(cuda1|nvcuvid|nvoptix|nvsdm|xnvctrl)",
    "linux-(modules|objects|signatures)-nvidia-",
    "(firmware|xserver-xorg-video)-nvidia",
    "cuda-drivers",
)
"""How the names of the driver's packages begin, on Debian, on Ubuntu and from NVIDIA. All are of one version: a library
that is newer than the kernel's module stops every new process that wants a GPU."""


def _matches(found: str | None, want: str | None) -> bool:
    return want is None or (found is not None and fnmatch.fnmatchcase(found, want))


def driver(plan: Needs) -> None:
    """The driver is installed only where the owner says so and nothing runs; else it is told what is missing."""
    if not plan.node.gpus.count:
        return
    driver, facts = plan.host.driver, plan.facts
    right = facts.driver is not None and _matches(facts.driver, driver.version)
    got = facts.driver or facts.driver_error or ("no nvidia-smi" if "nvidia-smi" not in facts.programs else "no answer")
    want = f"the NVIDIA driver{f' {driver.version}' if driver.version else ''}"
    if not right and driver.package is None:
        plan.refused.append(Refusal(want=want, got=got, remedy="install it, or declare host.driver.package"))
    elif not right and facts.busy:
        remedy = f"stop {', '.join(facts.busy)} first; a driver is never changed under a running engine"
        plan.refused.append(Refusal(want=want, got=got, remedy=remedy))
    elif not right and driver.package is not None:
        installed = _upstream(facts.packages.get(driver.package))
        if installed is None or not _matches(installed, driver.version):
            _install_driver(plan, driver.package, driver.version)
        else:
            plan.notes.append(f"{driver.package} is installed, and the driver tells: {got}; it needs a reboot")
        plan.steps.append(Step(kind="reboot", name="Reboot for the driver"))
    if right and facts.module and facts.module_on_disk and facts.module != facts.module_on_disk:
        plan.notes.append(f"the driver {facts.module} runs, {facts.module_on_disk} is installed: a reboot is due")
        plan.steps.append(Step(kind="reboot", name="Reboot for the driver"))
    elif right and facts.reboot:
        plan.notes.append(f"a reboot is due: {facts.reboot}")
        plan.steps.append(Step(kind="reboot", name="Reboot"))
    _held(plan)


def _upstream(version: str | None) -> str | None:
    """570.124.06 of a package's 1:570.124.06-0ubuntu1; None where it is not installed."""
    return None if version is None else version.rpartition(":")[2].partition("-")[0]


_NOBODY = """for fd in $(find /proc/[0-9]*/fd -lname /dev/nvidia-uvm 2>/dev/null); do
  pid=${fd#/proc/}
  pid=${pid%%/*}
  name=$(cat "/proc/$pid/comm" 2>/dev/null) || continue
  case $name in nvidia-persiste*) continue ;; esac
  echo "want no process that has a GPU open, found $pid ($name); stop it first, then run again" >&2
  exit 1
done"""
"""The packages before the driver take minutes, in which somebody may start an engine by hand."""


def _install_driver(plan: Needs, package: str, version: str | None) -> None:
    plan.command("See once more that nothing has a GPU open", "sh", "-c", _NOBODY)
    if held := [name for name in driver_packages(plan.facts.packages) if name in plan.facts.held]:
        plan.command("Let the old driver go, which was held", "apt-mark", "unhold", *held)
    words = (f"{package}={version}" if version else package,)
    plan.steps.append(Step(kind="install", name=f"Install the driver: {words[0]}", packages=words))
    plan.notes.append("the driver that is installed now runs after a reboot")
    if plan.host.driver.hold:
        plan.command("Hold the driver", "sh", "-c", _HOLD_COMMAND)


def driver_packages(packages: Iterable[str]) -> list[str]:
    """Those of some packages that belong to the driver, in order."""
    return sorted(name for name in packages if any(re.match(start, name) for start in DRIVER))


def _held(plan: Needs) -> None:
    """Nobody upgrades the driver by the way: neither apt nor unattended-upgrades; nor does needrestart."""
    driver, facts = plan.host.driver, plan.facts
    if not driver.hold:
        return
    named = {name for name in (driver.package, driver.fabric_manager) if name in facts.packages and name}
    loose = sorted({*driver_packages(facts.packages), *named} - facts.held)
    if loose and not any(step.name == "Hold the driver" for step in plan.steps):
        told = ", ".join(loose[:4]) + (f" and {len(loose) - 4} more" if len(loose) > 4 else "")
        plan.steps.append(Step(kind="hold", name=f"Hold {told}", packages=tuple(loose)))
    packages = {*facts.packages, *plan.host.packages}
    if "unattended-upgrades" in packages:
        names = " ".join(f'"{start}";' for start in DRIVER)
        plan.file(
            UNATTENDED,
            f"Unattended-Upgrade::Package-Blacklist {{ {names} }};\n",
            "Keep unattended upgrades away from the driver",
        )
    if "needrestart" in packages:
        text = "$nrconf{override_rc}{qr(^vllm-)} = 0;\n"
        plan.file(NEEDRESTART, text, "Let needrestart leave engines alone after an upgrade of a library")


_HOLD_COMMAND = (
    "dpkg-query -W -f '${db:Status-Abbrev}${Package}\\n' | sed -n 's/^.i //p' | grep -P "
    f"'^({'|'.join(DRIVER)})' | xargs -r apt-mark hold"
)


def gpus(plan: Needs, units: dict[str, str]) -> None:
    """What stands between the driver and a container: CDI, device links, persistence, the fabric manager."""
    facts, driver = plan.facts, plan.host.driver
    if not plan.node.gpus.count or facts.driver is None:
        return
    if plan.node.runtime == "podman":
        plan.file(CDI_UNIT, units[CDI_UNIT], "Refresh the CDI specification at boot, after a change of the driver")
        if facts.enabled.get("vllm-fleet-cdi") != "enabled":
            unit = ("vllm-fleet-cdi.service",)
            plan.steps.append(Step(kind="unit", name="Enable the CDI refresh at boot", packages=unit, mode="enable"))
        if facts.cdi is None or (facts.cdi_driver is not None and facts.cdi_driver != facts.driver):
            why = (
                "there is none" if facts.cdi is None else f"it is for {facts.cdi_driver}, the driver is {facts.driver}"
            )
            plan.command(f"Generate the CDI specification ({why})", "sh", "-c", _CDI_COMMAND)
    elif not facts.docker_knows_nvidia:
        plan.command("Let docker know the NVIDIA runtime", "nvidia-ctk", "runtime", "configure", "--runtime=docker")
        plan.steps.append(Step(kind="unit", name="Restart docker", packages=("docker.service",), mode="restart"))
    if facts.without_char_link:
        words = ("nvidia-ctk", "system", "create-dev-char-symlinks", "--create-all")
        plan.command(f"Make the links of /dev/char ({', '.join(facts.without_char_link)} had none)", *words)
    if driver.persistence and facts.persistence is False:
        if "nvidia-persistenced" in facts.enabled:
            plan.steps.append(
                Step(kind="unit", name="Keep the driver loaded", packages=("nvidia-persistenced.service",))
            )
        else:
            plan.command("Keep the driver loaded", "nvidia-smi", "-pm", "1")
    if facts.nvswitch and facts.units.get("nvidia-fabricmanager") != "active":
        if "nv-fabricmanager" not in facts.programs and driver.fabric_manager is None:
            remedy = "declare host.driver.fabric_manager, of the driver's own version"
            plan.refused.append(
                Refusal(want="the fabric manager on a machine with NVSwitch", got="none", remedy=remedy)
            )
            return
        if "nv-fabricmanager" not in facts.programs and driver.fabric_manager is not None:
            package = (driver.fabric_manager,)
            plan.steps.append(Step(kind="install", name="Install the fabric manager", packages=package))
        plan.steps.append(Step(kind="unit", name="Run the fabric manager", packages=("nvidia-fabricmanager.service",)))


_CDI_COMMAND = (
    f"mkdir -p /etc/cdi && nvidia-ctk cdi generate --format=yaml --output=/etc/cdi/.nvidia.yaml.new >/dev/null "
    f"&& mv -f /etc/cdi/.nvidia.yaml.new {CDI}"
)
