import random
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from labelled.material import cjk, prose, sentence
from labelled.sets import Answer, development, fifth, fourth, held_out, third

from fleet.proof.degeneration import judge
from fleet.proof.passages import repeats_at_the_end, without_counters

BOTH = ("stop", "length")


@pytest.mark.parametrize(
    ("answers", "seed"), [(development, 1), (development, 2), (held_out, 3), (third, 4), (fourth, 5), (fifth, 6)]
)
def test_degenerate_answers_are_told_from_sound_ones(answers: Callable[[int], Iterator[Answer]], seed: int) -> None:
    labelled = list(answers(seed))
    assert len(labelled) >= 180
    found = [(each, judge(each.text, each.finish_reason, each.max_tokens)) for each in labelled]
    wrong = [
        f"{each.recipe} ({each.finish_reason}): {said}" for each, said in found if each.degenerate != said.degenerate
    ]
    true = sum(each.degenerate and said.degenerate for each, said in found)
    precision = true / sum(said.degenerate for _, said in found)
    recall = true / sum(each.degenerate for each in labelled)
    print(f"{answers.__name__} {seed}: {len(labelled)} answers, precision {precision:.3f}, recall {recall:.3f}")
    assert precision >= 0.98, wrong
    assert recall >= 0.98, wrong


def test_half_of_the_labelled_answers_are_degenerate() -> None:
    labels = [each.degenerate for answers in (development, held_out, third, fourth, fifth) for each in answers(1)]
    assert len(labels) >= 1500
    assert 0.4 < sum(labels) / len(labels) < 0.6


@pytest.mark.parametrize("reason", [*BOTH, "tool_calls", None, "something new"])
def test_ordinary_prose_is_sound_whatever_ended_it(reason: str | None) -> None:
    for text in (prose(random.Random(1), 60), cjk(random.Random(2), 30), "4", "Yes."):
        assert not judge(text, reason, 512).degenerate


def test_a_loop_is_told_with_what_it_says_and_how_often() -> None:
    found = judge("Right." + " and then the same thing again" * 30, "length", 256)
    assert found.degenerate
    assert "and then the same thing again" in found.why
    assert "30" in found.why


def test_no_text_is_degenerate_only_where_the_engine_went_on_to_the_limit() -> None:
    assert judge("", "length", 64).degenerate
    assert judge(" \n\n", "length", 64).why == "no visible text in 64 tokens"
    assert not judge("", "stop", 64).degenerate


def test_a_refrain_is_no_loop_where_the_answer_ended() -> None:
    rng = random.Random(3)
    refrain = sentence(rng)
    poem = "\n\n".join(f"{prose(rng, 4)}\n{refrain}\n{refrain}" for _ in range(5))
    assert not judge(poem, "stop").degenerate
    assert not judge(poem, "length").degenerate


def test_a_loop_that_the_engine_ended_after_all_is_one() -> None:
    assert judge("I will look at the file again. " * 20, "stop", 4096).degenerate


def test_a_counter_that_can_be_foretold_says_nothing() -> None:
    assert without_counters("Step 7: a. Step 8: b. Step 9: c.") == "Step 7: a. Step #: b. Step #: c."
    assert without_counters("10 left, 9 left, 8 left") == "10 left, 9 left, # left"
    assert without_counters("7 of 31, 4 of 11, 9 of 77") == "7 of 31, 4 of 11, 9 of 77"
    rows = "".join(f'{{"id": {n}, "name": "user{n}"}}, ' for n in range(9))
    assert without_counters(rows) == rows, "in data several counters are what was asked for"


@given(st.text(min_size=1, max_size=30), st.integers(2, 20), st.text(max_size=20))
def test_the_repetition_at_the_end_is_found(unit: str, times: int, before: str) -> None:
    text = before + unit * times
    longest = repeats_at_the_end(text)[0]
    assert text.endswith(longest.unit) or len(longest.unit) <= len(text)
    assert longest.length >= len(unit) * times
    tail = text[-longest.length :]
    period = len(longest.unit)
    assert all(tail[i] == tail[i - period] for i in range(period, len(tail)))


@given(
    st.text(st.characters(codec=None, categories=None), max_size=400),
    st.sampled_from([*BOTH, None]),
    st.none() | st.integers(1, 100),
)
def test_any_text_gets_a_judgement(text: str, reason: str | None, limit: int | None) -> None:
    assert judge(text, reason, limit).why


def test_a_long_answer_is_judged_as_well() -> None:
    long = prose(random.Random(5), 4000)
    assert not judge(long, "length").degenerate
    assert judge(long + "So it is. Now again: " * 12, "length").degenerate


@pytest.mark.parametrize(
    ("text", "looped"),
    [
        ("The answer is 4." + " and so on" * 10, True),
        ("right" + " and then the same thing" * 4 + " and then", True),
        ("对" + "然后又是一样的事情" * 6, True),
        ("The answer is 4.", False),
        ("Well...", False),
        ("la la la", False),
        ("1000000000", False),
        ("no no no no, but then it goes on and on with new things to say about it all", False),
    ],
)
def test_a_short_answer_that_was_cut_is_judged_as_well(text: str, looped: bool) -> None:
    assert judge(text, "length", 32).degenerate is looped


def test_half_a_pair_of_surrogates_is_judged_as_well() -> None:
    assert judge("\ud800 and again " * 40, "length").degenerate


def test_a_name_in_quotes_may_stand_between_an_article_and_any_word() -> None:
    lines = (f"The ``OPTION_{n}`` of {sentence(random.Random(n)).lower()[:-1]}." for n in range(12))
    text = " ".join(lines)
    assert not judge(text, "stop").degenerate


ROWS = {
    "csv": "\n".join(f"{n},{2 * n},{3 * n}" for n in range(1, 300)),
    "remainders": "\n".join(f"{n},{n % 2},{n % 3},{n % 5}" for n in range(200)),
    "addresses": "\n".join(f"192.168.1.{n}" for n in range(1, 255)),
    "dates": "\n".join(f"2024-{month:02d}-{day:02d}" for month in range(1, 13) for day in range(1, 29)),
    "faces": "\n".join(f"f {n} {n + 1} {n + 2}" for n in range(1, 99)),
    "users": "id,name\n" + "\n".join(f"{n},user{n}" for n in range(200)),
    "flags": "id,flag\n" + "\n".join(f"{n},true" for n in range(200)),
    "inserts": "\n".join(f"INSERT INTO users (id, name) VALUES ({n}, 'user{n}');" for n in range(1, 150)),
    "array": "[" + ", ".join(map(str, range(1, 600))),
}


@pytest.mark.parametrize("kind", ROWS)
def test_rows_of_numbers_that_count_up_are_data_that_was_cut(kind: str) -> None:
    assert not judge(ROWS[kind], "length", 2048).degenerate


@pytest.mark.parametrize(
    "text",
    [
        "1,2,3\n" * 300,
        "[" + "0, " * 600,
        "\n".join(f"{n}." for n in range(1, 300)),
        "\n".join(f"Step {n}/300" for n in range(1, 300)),
        "and so " + ", ".join(map(str, range(1, 600))),
    ],
)
def test_numbers_without_data_are_a_loop_still(text: str) -> None:
    assert judge(text, "length", 2048).degenerate


def verses(first: int, last: int) -> str:
    return "\n\n".join(
        f"{n} bottles of beer on the wall, {n} bottles of beer.\n"
        f"Take one down and pass it around, {n - 1} bottles of beer on the wall."
        for n in range(first, last, -1)
    )


def test_a_song_that_counts_down_is_none_and_one_that_counts_up_never_ends() -> None:
    assert not judge(verses(99, 40), "length", 4096).degenerate
    upwards = "\n\n".join(reversed(verses(99, 40).split("\n\n")))
    assert judge(upwards, "length", 4096).degenerate


def test_few_words_in_the_same_order_are_a_song_where_the_answer_ended() -> None:
    line = "green bottles hanging on the wall"
    song = "\n\n".join(
        f"{n} {line},\n{n} {line},\nAnd if one green bottle should accidentally fall,\nThere'll be {n - 1} {line}."
        for n in range(10, 0, -1)
    )
    assert not judge(song, "stop", 4096).degenerate
    rng = random.Random(9)
    shuffled = " ".join(rng.choice(line.split()) for _ in range(300))
    assert judge(shuffled, "stop", 4096).degenerate


@pytest.mark.parametrize("reason", BOTH)
def test_characters_that_no_text_has_are_told(reason: str) -> None:
    assert judge("It is 4. " + "\ufffd" * 200, reason).degenerate
    assert not judge("It is 4, in Chinese: \ufffd\ufffd", reason).degenerate, "a character that was cut"


@pytest.mark.parametrize("reason", BOTH)
def test_scripts_that_change_within_words_are_told(reason: str) -> None:
    rng = random.Random(4)
    ranges = [(0x4E00, 0x9FFF), (0xC0, 0x24F), (0x21, 0x7E), (0xAC00, 0xD7A3)]
    garbage = "".join(chr(rng.randint(*rng.choice(ranges))) for _ in range(1500))
    assert judge("The answer is as follows. " + garbage, reason).degenerate
    formulas = "".join(f"设{a}为{b}，则{b}加{a}等于{c}。" for a, b, c in (rng.sample("abcxyz", 3) for _ in range(60)))
    assert not judge(formulas, "stop").degenerate
    assert not judge("漢字(かんじ)とKanjiを使う文章です。" + cjk(rng, 30), reason).degenerate


@pytest.mark.parametrize("reason", BOTH)
@pytest.mark.parametrize("range_", [(0x80, 0xFF), (0xE000, 0xF8FF)], ids=["latin-1", "private use"])
def test_characters_that_stand_for_nothing_are_told(reason: str, range_: tuple[int, int]) -> None:
    rng = random.Random(6)
    assert judge("Sure. " + "".join(chr(rng.randint(*range_)) for _ in range(900)), reason).degenerate
    assert not judge("\x1b[32mPASSED\x1b[0m test_a\n" * 3 + "All three tests pass now.", "stop").degenerate


def test_what_nobody_can_see_is_no_text() -> None:
    rng = random.Random(7)
    unseen = "".join(rng.choice("\u200b\u200c\u200d\ufeff") for _ in range(900))
    assert judge(unseen, "length", 900).why == "no visible text in 900 tokens"
    assert judge("It is 4." + unseen, "length", 900).degenerate


def test_greek_and_hebrew_within_one_word_are_no_language() -> None:
    rng = random.Random(8)
    pair = [chr(n) for n in (*range(0x3B1, 0x3CA), *range(0x5D0, 0x5EB))]
    assert judge("".join(rng.choice(pair) for _ in range(900)), "length").degenerate
    assert not judge("שלום αβγδε " * 2 + "are words of two languages.", "stop").degenerate


def test_a_handful_of_short_sentences_in_any_order_is_a_circle() -> None:
    rng = random.Random(9)
    phrases = ("Hmm, wait. ", "Hold on. ", "Let me think. ", "Wait. ")
    assert judge("".join(rng.choice(phrases) for _ in range(300)), "length").degenerate
    key = " ".join(f"{n}. {rng.choice('ABCD')}" for n in range(1, 150))
    assert not judge(key, "length").degenerate, "the key of a test"


def test_a_plan_of_twelve_weeks_ended_and_one_of_hundreds_did_not() -> None:
    weeks = [f"Week {n}: Run 3 times, rest 4 days." for n in range(1, 300)]
    assert not judge("\n".join(weeks[:12]), "stop").degenerate
    assert judge("\n".join(weeks), "stop").degenerate
    assert judge("\n".join(weeks), "length").degenerate
