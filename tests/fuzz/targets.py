"""What is fuzzed: every parser of what a node or a tool prints, with seeds of real outputs and with what must hold.

A target takes any text. It may raise only the error that its parser names; it must end; and what it did not understand
must be told, never passed over.
"""

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path

from facts.parse.bare import read_bare
from facts.parse.cdi import parse_cdi
from facts.parse.cgroups import unit_of
from facts.parse.checkpoint import with_checkpoints
from facts.parse.delivered import read_room, read_verified
from facts.parse.delivery import parse_look
from facts.parse.engines import parse_engines
from facts.parse.frames import ProbeError, Section, parse_frames, with_nonce
from facts.parse.gpus import parse_gpus
from facts.parse.host import read_host
from facts.parse.kernel import parse_kernel
from facts.parse.numa import CpuListError, parse_cpu_list, parse_numa
from facts.parse.nvlinks import parse_nvlinks
from facts.parse.p2p import parse_p2p
from facts.parse.probe import parse_probe, read_models, read_mounts
from facts.parse.runtime import parse_disks, parse_ports, parse_runtime
from facts.parse.services import PartError, parse_files, parse_secrets, parse_services, parse_units
from facts.parse.span import parse_span
from facts.parse.start_log import parse_start
from facts.parse.system import parse_system
from facts.parse.tensors import parse_indexers
from facts.parse.topology import TopologyError, parse_topology
from facts.parse.versions import parse_names, parse_versions
from facts.script import ProbeScript
from fleet.delivery.manifest import ManifestError, read_manifest
from fleet.drift import audit
from fleet.gate import FleetView, evaluate
from fleet.model.agreement import disagreement
from fleet.model.checkpoint import parse_lines
from fleet.model.shape import ModelError
from fleet.model.sharding import cuts
from fleet.nodes.node import ModelFolder
from fleet.nodes.request import PeerRequest, ProbeRequest, ServiceRequest
from fleet.nodes.running import Report
from fleet.plan import NodeView, decide
from tests.fleet import builders, cases

ROOT = Path(__file__).resolve().parents[2]
ANSWER = ROOT / "tests" / "facts" / "answers" / "a1.txt"
NONCE = "0123456789abcdef"
MODEL = "/srv/models/glm-dsa-78"
ASKED = ServiceRequest(name="chat", model=MODEL, image="localhost/vllm@sha256:" + "ab" * 32, port=8000)
SCRIPT = ProbeScript(text="", nonce=NONCE, request=ProbeRequest(services=(ASKED,), secret_key="key", deep=True))

Check = Callable[[str], None]
TARGETS: dict[str, tuple[Check, tuple[str, ...], tuple[str, ...]]] = {}
"""Name -> the check, the sections of a real answer that seed it, and further texts that do."""


def target(*sections: str, texts: tuple[str, ...] = ()) -> Callable[[Check], Check]:
    """Make a function a target, by its own name."""

    def enter(check: Check) -> Check:
        TARGETS[check.__name__] = (check, sections, texts)
        return check

    return enter


def seeds(name: str) -> list[str]:
    """Real texts for a target: its sections in the answers of recorded nodes, whole answers where it names none."""
    texts = [ANSWER.read_text(), *(path.read_text() for path in sorted(ROOT.glob("inventory/recorded/*.probe")))]
    _, sections, own = TARGETS[name]
    if not sections:
        return list(own) or texts
    pattern = re.compile(rf"==({NONCE}) ([a-z]+) begin\n(.*?)\n==\1 \2 end rc=[0-9]+\n", re.DOTALL)
    return [*own, *(match[3] for text in texts for match in pattern.finditer(text) if match[2] in sections)]


def section(text: str, code: int | None = 0) -> Section:
    """A section that ended well unless the text begins with `!`: then it failed."""
    return Section(text=text[1:], code=1) if text.startswith("!") else Section(text=text, code=code)


def told(error: str | None, text: str, found: object) -> None:
    """A section that failed, or told nothing of what it is for, says why."""
    assert error or (found and not text.startswith("!")), f"nothing was found and nothing is said about {text[:80]!r}"


@target("gpus")
def gpus(text: str) -> None:
    """Every line that is no GPU row is an error, word for word."""
    nvidia = parse_gpus(text)
    nvidia.model_dump_json()
    assert nvidia.error or nvidia.gpus
    again = any(line.startswith("fields ") for line in text.splitlines())
    for line in text.splitlines():
        if "device handle" in line and not line.startswith(("process ", "cgroup ")) and not again:
            assert line.strip() in (nvidia.error or "")


@target("topology")
def topology(text: str) -> None:
    """A matrix is understood whole or refused; cut or damaged rows never give fewer GPUs without a word."""
    try:
        found = parse_topology(text)
    except TopologyError:
        return
    assert found.gpus == len(found.links) >= 1
    rows = {line.split()[0] for line in text.splitlines() if re.match(r"\s*GPU[0-9]+\s+.*\bX\b", line)}
    assert found.gpus >= len({row for row in rows if re.fullmatch(r"GPU[0-9]+", row)})
    found.summary()


@target("kernel")
def kernel(text: str) -> None:
    """No line with an Xid is passed over."""
    log = parse_kernel(section(text))
    for line in section(text).text.splitlines():
        if "NVRM: Xid (" in line:
            assert log.error or log.xids


@target("nvlinks")
def nvlinks(text: str) -> None:
    """GPUs with their ports, or the reason."""
    links, error = parse_nvlinks(section(text))
    told(error, text, links)
    assert not (error and links)


@target("peers")
def peers(text: str) -> None:
    """A whole square of known words, or the reason."""
    rows, error = parse_p2p(section(text))
    told(error, text, rows)
    assert {len(row) for row in rows} <= {len(rows)}


@target("host")
def span(text: str) -> None:
    """Of every peer that was asked for, what was told or why nothing is known."""
    asked = (PeerRequest(name="a2", address="a2.example", port=29501),)
    way = "route 192.0.2.2 dev ens1 src 192.0.2.1 uid 0"
    for whole in (text, f"peer a2 29501\nresolved {text}\n{way}", f"peer a2 29501\nresolved 192.0.2.2\nroute {text}"):
        found, error = parse_span(section(whole), asked)
        told(error, whole, found)
        for peer in found:
            assert peer.error or (peer.resolved and peer.interface and peer.source)


@target("system")
def system(text: str) -> None:
    """Without an error the limits of PID 1 are known."""
    machine = parse_system(section(text))
    machine.model_dump_json()
    assert machine.error or machine.open_files or machine.locked_memory


@target("cdi")
def cdi(text: str) -> None:
    """Each line is a part of a specification, or an error."""
    found = parse_cdi(section(text))
    words = {"spec", "name", "library", "missing"}
    odd = [line for line in section(text).text.splitlines() if line.strip() and line.partition(" ")[0] not in words]
    assert found.error or not odd


@target("numa")
def numa(text: str) -> None:
    """NUMA nodes that share no CPU, or the reason."""
    nodes, error = parse_numa(text)
    assert bool(nodes) != bool(error)
    cpus = [cpu for node in nodes for cpu in parse_cpu_list(node.cpus)]
    assert len(cpus) == len(set(cpus))


@target("numa")
def cpu_list(text: str) -> None:
    """Rising numbers, or CpuListError."""
    try:
        cpus = parse_cpu_list(text)
    except CpuListError:
        return
    assert list(cpus) == sorted(set(cpus))


@target("runtime")
def runtime(text: str) -> None:
    """Images and the reason for each that could not be looked at."""
    parse_runtime(section(text), "podman").model_dump_json()


@target("ports")
def ports(text: str) -> None:
    """Listeners, or the reason and none."""
    found, error = parse_ports(section(text))
    assert not (found and error)


@target("disks")
def disks(text: str) -> None:
    """Each wanted path has its room, or says why not."""
    assert all(disk.free_bytes is not None or disk.error for disk in parse_disks(section(text)))


@target("files")
def files(text: str) -> None:
    """Files, or PartError."""
    try:
        parse_files(section(text))
    except PartError as error:
        assert str(error)


@target("units")
def units(text: str) -> None:
    """Units, or PartError."""
    try:
        parse_units(section(text))
    except PartError as error:
        assert str(error)


@target("secrets")
def secrets(text: str) -> None:
    """Digests, or PartError."""
    try:
        parse_secrets(section(text))
    except PartError as error:
        assert str(error)


@target("services")
def services(text: str) -> None:
    """Services, or the reason and none."""
    quiet = Section(text="", code=0)
    found, error = parse_services({"services": section(text), "files": quiet, "units": quiet, "secrets": quiet}, ["a"])
    assert not (found and error)


@target("host")
def host(text: str) -> None:
    """Name and clock, or ProbeError."""
    try:
        assert read_host(section(text))["hostname"]
    except ProbeError:
        return


@target("models")
def models(text: str) -> None:
    """Each wanted folder has its config.json, or says why not."""
    assert all(folder.config is not None or folder.error for folder in read_models(section(text), [MODEL]))


@target("checkpoint")
def checkpoint(text: str) -> None:
    """Each wanted checkpoint has its tensors, or says why not."""
    (folder,) = with_checkpoints((ModelFolder(path=MODEL),), section(text))
    assert folder.checkpoint is not None or folder.checkpoint_error


@target("checkpoint")
def tensor_lines(text: str) -> None:
    """Tensors, or ModelError."""
    try:
        parse_lines(text.splitlines())
    except ModelError as error:
        assert str(error)


@target("models")
def indexers(text: str) -> None:
    """Layers with an indexer, or the reason."""
    layers, error = parse_indexers(text.splitlines())
    assert (layers is None) == (error is not None)


@target("mounts")
def mounts(text: str) -> None:
    """What is there, absent, or not told of."""
    assert all(isinstance(there, bool) for there in read_mounts(section(text)).values())


@target("engines", "reports")
def engines(text: str) -> None:
    """What runs, with the reason where it is not known."""
    head, _, tail = text.partition("\0")
    parse_engines(section(head), section(tail)).model_dump_json()


WORDS = """process\n50\n40\n1\n/system.slice/vllm-glm.service/libpod-payload-cc\nengine\n2\n/usr/bin/python3\nvllm
names\n50\n2\nA\nTOKEN\nenv\n50\n1\nA=b=c\nsecret\n50\nTOKEN\nff\nmount\n50\n/srv/x\n/opt/x\nother\nee
container\ncc\nii\nsha256:ab\nknown\n1\nPATH\ndocker\ndd\nvllm-glm\nx@sha256:ab\nend"""


@target(texts=(WORDS,))
def processes(text: str) -> None:
    """What runs, word by word as it stands behind base64; an audit of it has an answer to each check."""
    packed = base64.b64encode(text.replace("\n", "\0").encode("utf-8", "replace")).decode()
    running = parse_engines(section(packed), section(""))
    one, view = cases.of(builders.facts(services=(builders.installed(),), running=running))
    crashed = [str(drift) for drift in audit([one], [view]) if "the check could not decide" in drift.got]
    assert not crashed, crashed


REPORTS = """{"data": [{"id": "glm", "root": "/models/glm-5.2", "max_model_len": 524288}], "version": "0.30.0"}
vllm:cache_config_info{num_gpu_blocks="62500",block_size="16",kv_cache_size_tokens="1000000"} 1.0"""


@target(texts=(REPORTS,))
def reports(text: str) -> None:
    """Whatever an engine answers, whole or line by line: the audit compares it or says that it cannot."""
    for body in (text, text.partition("\n")[0], text.partition("\n")[2]):
        told = tuple(Report(path=path, status=200, body=body) for path in ("/v1/models", "/version", "/metrics"))
        one, view = cases.case(runs={"reports": told}, lies={"proof": body})
        crashed = [str(drift) for drift in audit([one], [view]) if "the check could not decide" in drift.got]
        assert not crashed, crashed


@target("versions")
def versions(text: str) -> None:
    """Each program that is there has its version, or the reason is told."""
    found, error = parse_versions(section(text))
    asked = {line.partition(" ")[2] for line in section(text).text.splitlines() if line.startswith("program ")}
    assert error or asked == set(found)


@target(texts=("yes mirror.example\nno a2.example\n",))
def names(text: str) -> None:
    """Only names that were asked about are told of."""
    found, _ = parse_names(section(text), ("mirror.example", "a2.example"))
    assert set(found) <= {"mirror.example", "a2.example"}


DELIVERED = f"checkpoint {MODEL}\nverified sha256:{'ab' * 32}\ncheckpoint /srv/b\nheld 12\nroom 1000 2000\n"


@target(texts=(DELIVERED,))
def delivered(text: str) -> None:
    """A folder is verified as a digest, and its figures are numbers of bytes."""
    assert all(re.fullmatch("sha256:[0-9a-f]{64}", digest) for digest in read_verified(section(text)).values())
    assert all(number >= 0 for figures in read_room(section(text)).values() for number in figures.values())


LOOK = f"tool rsync\nlease x\ncheckpoint {MODEL}\nkind folder\nroom 5 6\nthere f 5 a\nstaged f 5 b\nbeside .glm.x\n"


@target(texts=(LOOK,))
def look(text: str) -> None:
    """What a delivery must know of a node, or ProbeError."""
    host = f"now=1700000000\nhostname=a1\n{text if text.startswith('lock=') else ''}"
    parts = {"host": host, "delivered": DELIVERED, "delivery": text}
    parts |= dict.fromkeys(("runtime", "services", "files", "units", "secrets"), "")
    framed = "".join(f"=={NONCE} {name} begin\n{said}\n=={NONCE} {name} end rc=0\n" for name, said in parts.items())
    try:
        parse_look("a1", f"{framed}=={NONCE} done\n", SCRIPT).model_dump_json()
    except ProbeError as error:
        assert str(error)


BARE = """os ID debian\nos VERSION_ID 13\nsystemd yes\npackage ii |podman|5.4.2\nheld nvidia-driver-580\nprogram podman
unit chrony.service active\nunitfile chrony.service enabled\nsmi 580.95.05, Enabled\ncdi /etc/cdi/nvidia.yaml 580.95.05
sysctl vm.swappiness 10\nentry 644_root:root_regular_file /etc/a b\ncontent abc  /etc/a b\nuser vllm\nreboot due\n"""


@target(texts=(BARE,))
def bare(text: str) -> None:
    """What a bootstrap must know of a machine; a line in another form tells nothing."""
    read_bare(section(text)).model_dump_json()


CGROUPS = "/system.slice/vllm-glm.service/libpod-payload-cc\n/user.slice/user-0.slice/session-1.scope"


@target(texts=(CGROUPS,))
def cgroups(text: str) -> None:
    """A unit is a part of the path, and nothing else."""
    unit = unit_of(text, {})
    assert unit is None or unit in text.split("/")


@target("services")
def start_log(text: str) -> None:
    """What a started engine logged, as far as it is plain."""
    parse_start(text.splitlines()).model_dump_json()


@target("files")
def manifest(text: str) -> None:
    """A manifest, or ManifestError."""
    try:
        read_manifest(text)
    except ManifestError as error:
        assert error.lines


@target("models", texts=tuple(path.read_text() for path in sorted(ROOT.glob("lab/models/*/config.json"))))
def quantisation(text: str) -> None:
    """The sizes of any object that calls itself config.json, or ModelError."""
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(config, dict):
        for ask in (cuts, lambda one: disagreement(one, builders.checkpoint(1))):
            try:
                ask(config)
            except ModelError as error:
                assert str(error)


@target()
def frames(text: str) -> None:
    """Sections, or ProbeError."""
    try:
        parse_frames(text, NONCE)
        parse_frames(with_nonce(text, "fedcba9876543210"), "fedcba9876543210")
    except ProbeError as error:
        assert str(error)


@target()
def probe(text: str) -> None:
    """A whole answer, through plan and gates: facts or ProbeError, and every gate has an answer to any facts."""
    try:
        facts = parse_probe(text, SCRIPT)
    except ProbeError as error:
        assert str(error)
        return
    facts.model_dump_json()
    view = NodeView(placement=builders.view(builders.node(), builders.service(), told=None).placement, facts=facts)
    plans = tuple(decide(view.placement, service, facts) for service in view.placement.services)
    verdicts = evaluate(FleetView(views=(view,), plans=plans))
    crashed = [str(verdict) for verdict in verdicts if "the gate could not decide" in verdict.got]
    assert not crashed, crashed
