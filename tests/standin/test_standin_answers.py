import pytest

from lab.standin.answers import LOOP, plan


def _text(prompt: str, max_tokens: int = 200, stops: tuple[str, ...] = (), **more: bool) -> tuple[str, str]:
    answer = plan(prompt, max_tokens, list(stops), more.get("endless", False), more.get("ignore_eos", False))
    return "".join(answer.pieces), answer.finish_reason


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is 2+2?", "4"),
        ("what's 7 - 9", "-2"),
        ("Compute 6 x 7, please", "42"),
        ("What is 12 times 12?", "144"),
        ("What is 7 / 2?", "3.5"),
        ("What is 8/2?", "4"),
        ("What is 1/0?", "undefined"),
        ("What is 1+1? No: what is -3 + 5?", "2"),
    ],
)
def test_sums_are_right(question: str, answer: str) -> None:
    assert _text(question) == (f"The answer is {answer}.", "stop")


def test_the_same_prompt_has_the_same_answer() -> None:
    answers = {prompt: _text(prompt) for prompt in ("a", "b", "c", "d", "2026-11-30")}
    assert answers == {prompt: _text(prompt) for prompt in answers}
    assert len({text for text, _ in answers.values()}) > 2
    assert all(reason == "stop" and text.endswith(".") for text, reason in answers.values())


def test_max_tokens_ends_an_answer() -> None:
    text, reason = _text("a", 3)
    assert (len(text.split()), reason) == (3, "length")
    assert text == " ".join(_text("a")[0].split()[:3])


def test_a_stop_text_ends_an_answer_before_itself() -> None:
    assert _text("What is 2+2?", stops=("is 4", "4.")) == ("The answer ", "stop")
    assert _text("What is 2+2?", stops=("The",)) == ("", "stop")
    assert _text("What is 2+2?", stops=("absent",)) == ("The answer is 4.", "stop")


def test_an_answer_can_be_made_to_go_on() -> None:
    text, reason = _text("What is 2+2?", 50, ignore_eos=True)
    assert (len(text.split()), reason) == (50, "length")


def test_an_endless_answer_is_right_and_then_loops() -> None:
    text, reason = _text("What is 2+2?", 100, stops=("again",), endless=True)
    assert (len(text.split()), reason) == (100, "length")
    assert text.startswith("The answer is 4. ")
    assert text.count(LOOP) == 16
