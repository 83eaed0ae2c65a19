"""A recording holds no secret, no serial number and no identifier, in clear or within base64, and can still be read."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts.parse.frames import parse_frames
from facts.parse.services import parse_files
from facts.scrub import NONCE, RecordingError, read_recording, recorded, scrubbed
from fleet.nodes.request import ProbeRequest, ServiceRequest

SECRET = "hunter2$ \\ü"
UUID = "GPU-3cb87b12-0f5a-7f4e-9a61-0d1a2b3c4d5e"
FOLDER = "/var/lib/vllm-fleet/glm/releases/0123456789abcdef"


def framed(**sections: str) -> str:
    body = "".join(
        f"==00112233445566aa {name} begin\n{text}\n\n==00112233445566aa {name} end rc=0\n"
        for name, text in sections.items()
    )
    return f"{body}\n==00112233445566aa done\n"


def files(**texts: str) -> str:
    """The section `files` with these files of a release (dots of names written as underscores)."""
    stats = [
        f"600 root:root {len(text.encode())} regular file {FOLDER}/{name.replace('_', '.')}"
        for name, text in texts.items()
    ]
    content = "".join(f"{text}\0" for text in texts.values()).encode()
    return "\n".join(stats) + "\n\n" + base64.b64encode(content).decode()


def test_secrets_serials_and_identifiers_are_left_out_everywhere() -> None:
    hidden = base64.b64encode(f"process\0--api-key\0{SECRET}\0".encode()).decode()
    host = f"now=1\nhostname=a1\nboot_id=x-y\nkernel=6.1\nnote={SECRET}\nSerial Number : 0324018\nuuid={UUID}"
    text = scrubbed(framed(host=host, engines=hidden), [SECRET, ""])
    decoded = base64.b64decode(parse_frames(text, NONCE)["engines"].text.strip()).decode()
    for word in (SECRET, "0324018", UUID, "x-y"):
        assert word not in text and word not in decoded
    assert "kernel=6.1" in text and "GPU-*" in text and decoded.startswith("process\0--api-key\0***")


def test_a_variable_of_no_plan_is_kept_without_its_value() -> None:
    plan = json.dumps({"env": {"HF_HUB_OFFLINE": "1"}})
    env = 'HF_HUB_OFFLINE="1"\nHF_TOKEN="a-token-by-hand"\n'
    section = parse_frames(scrubbed(framed(files=files(env=env, plan_json=plan))), NONCE)["files"]
    kept = parse_files(section)[f"{FOLDER}/env"]
    assert kept.text == 'HF_HUB_OFFLINE="1"\nHF_TOKEN="***************"\n'


@given(
    st.text(min_size=4, max_size=20).filter(lambda text: "*" not in text and "\n" not in text and "\r" not in text),
    st.text(max_size=40),
)
def test_whatever_a_secret_is_it_does_not_stay(secret: str, around: str) -> None:
    section = files(unit=f"{around}\n{secret}\n{around}", plan_json="{}")
    text = scrubbed(framed(host=f"now=1\nhostname={secret}", files=section), [secret])
    found = parse_frames(text, NONCE)
    content = base64.b64decode(found["files"].text.strip().split("\n\n")[1])
    assert secret not in found["host"].text and secret.encode() not in content
    assert len(content) == len(base64.b64decode(section.split("\n\n")[1])), "sizes fit what stat told"


def test_scrubbing_again_changes_nothing() -> None:
    once = scrubbed(framed(host=f"now=1\nhostname=a1\n{UUID}", files=files(env='A="b"\n')), [SECRET])
    assert scrubbed(once, [SECRET]) == once


def test_a_recording_tells_its_request_without_the_key_of_its_run() -> None:
    service = ServiceRequest(name="glm", model="/m", image="x@sha256:" + "a" * 64, port=1)
    request = ProbeRequest(services=(service,), secret_key="the-key", deep=True)
    text = recorded(framed(host="now=1\nhostname=a1"), request)
    read = read_recording(text)
    assert "the-key" not in text and read.request == request.model_copy(update={"secret_key": ""})
    assert parse_frames(read.text, NONCE)["host"].text.startswith("now=1")


@pytest.mark.parametrize("text", ["", "request {}x\n", "==0011 host begin\n", 'request {"unknown": 1}\n'])
def test_what_is_no_recording_is_told(text: str) -> None:
    with pytest.raises(RecordingError, match="want a recording"):
        read_recording(text)
