"""Parsers of what lies and runs on a node, of checkpoints, and of a whole answer through plan, gates and audit."""

import base64
import json
import re

from facts.parse.checkpoint import with_checkpoints
from facts.parse.delivered import read_room, read_verified
from facts.parse.delivery import parse_look
from facts.parse.engines import parse_engines
from facts.parse.frames import ProbeError, Section, parse_frames, with_nonce
from facts.parse.probe import parse_probe
from facts.parse.services import PartError, parse_files, parse_secrets, parse_services, parse_units
from facts.parse.start_log import parse_start
from facts.parse.tensors import parse_indexers
from fleet.delivery.manifest import ManifestError, read_manifest
from fleet.drift import audit
from fleet.gate import FleetView, evaluate
from fleet.model.agreement import disagreement
from fleet.model.checkpoint import parse_lines
from fleet.model.shape import ModelError
from fleet.model.sharding import cuts
from fleet.nodes.node import ModelFolder
from fleet.nodes.running import Report
from fleet.plan import NodeView, decide
from tests.fleet import builders, cases
from tests.fuzz.frame import MODEL, NONCE, ROOT, SCRIPT, section, target


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
