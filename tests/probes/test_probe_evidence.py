import pytest
from pydantic import SecretStr, ValidationError

from probes.evidence import Endpoint, Evidence, Limits


def test_an_endpoint_has_no_path() -> None:
    assert Endpoint(url="http://10.0.0.1:8000/", model="glm").url == "http://10.0.0.1:8000"
    assert Endpoint(url="https://[fd00::1]:8000", model="glm").url == "https://[fd00::1]:8000"
    for url in ("10.0.0.1:8000", "ftp://a:1", "http://", "http://a:b", "http://a/v1", "http://u:p@a:1", "http://a?x=1"):
        with pytest.raises(ValidationError):
            Endpoint(url=url, model="glm")


def test_a_key_is_never_shown() -> None:
    endpoint = Endpoint(url="http://a:1", model="glm", api_key=SecretStr("hush"))
    assert "hush" not in f"{endpoint} {endpoint!r} {endpoint.model_dump()} {endpoint.model_dump_json()}"
    assert endpoint.hide("say hush") == "say ***"
    assert Endpoint(url="http://a:1", model="glm").hide("say") == "say"


def test_limits_are_positive() -> None:
    for fields in ({"total_s": 0}, {"total_s": float("inf")}, {"answers": 0}, {"max_tokens": 0}, {"other": 1}):
        with pytest.raises(ValidationError):
            Limits.model_validate(fields)


def test_evidence_reads_like_a_log_line() -> None:
    failed = Evidence(probe="completion", passed=False, wanted="HTTP 200", found="HTTP 500: oh", seconds=1.234)
    assert str(failed) == "completion FAILED after 1.23 s: wanted HTTP 200, found HTTP 500: oh"
    passed = failed.model_copy(update={"passed": True, "found": "'4'"})
    assert str(passed) == "completion passed in 1.23 s: '4'"
