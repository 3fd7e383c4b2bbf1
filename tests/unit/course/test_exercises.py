"""Exercises check themselves: solutions pass, stubs do not, and what is said helps."""

import pytest

from minitorch2.course import __main__ as command
from minitorch2.course import exercises as exercises  # fills the table
from minitorch2.course.chapters import NUMERALS, PARTS, chapters
from minitorch2.course.exercise import EXERCISES, LEVELS, Exercise, check_answer, find

ALL = [each for chapter in chapters() for each in EXERCISES.get(chapter.page, ())]


@pytest.mark.parametrize("asked", ALL, ids=lambda asked: asked.name)
def test_the_solution_passes_and_the_stub_does_not(asked: Exercise):
    outcome = check_answer(asked, asked.solution, f"<solution {asked.name}>")
    assert outcome.passed, outcome.message
    begun = check_answer(asked, asked.stub, f"<stub {asked.name}>")
    assert not begun.passed and begun.message


def test_every_chapter_has_exercises():
    missing = [chapter.page for chapter in chapters() if chapter.page not in EXERCISES]
    assert not missing, f"{missing}: add a file to src/minitorch2/course/exercises"


@pytest.mark.parametrize("page", EXERCISES)
def test_a_chapter_has_four_to_six_on_three_levels(page):
    assert 4 <= len(EXERCISES[page]) <= 6
    levels = [each.level for each in EXERCISES[page]]
    assert set(levels) == set(LEVELS)
    assert levels == sorted(levels, key=LEVELS.index)
    assert all(each.hints and each.check.__doc__ for each in EXERCISES[page])
    assert page in [chapter.page for chapter in chapters()]


def test_an_answer_that_raises_says_where():
    asked = ALL[0]
    outcome = check_answer(asked, "depth = 1 / 0", "<raising>")
    assert not outcome.passed and "depth = 1 / 0" in outcome.message
    assert "does not set operations" in check_answer(asked, "depth = 1").message


def test_the_command_starts_checks_hints_and_solves(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    asked = ALL[0]
    assert command.main(["check", asked.name]) == 1
    assert "start" in capsys.readouterr().out
    assert command.main(["start", asked.name]) == 0
    assert command.main(["check", asked.name]) == 1
    assert f"Hint: {asked.hints[0]}" in capsys.readouterr().out
    command.main(["solution", asked.name])
    (tmp_path / "answers" / f"{asked.name}.py").write_text(capsys.readouterr().out)
    assert command.main(["check", asked.name]) == 0
    assert capsys.readouterr().out == f"{asked.name} passed\n"
    assert command.main(["check", "99.9"]) == 2


def test_the_list_has_every_part_chapter_and_exercise(capsys):
    assert command.main([]) == 0
    text = capsys.readouterr().out
    assert all(f"{numeral} {part.title}\n" in text for numeral, part in zip(NUMERALS, PARTS))
    assert all(f" {each.name} " in text for each in ALL)
    assert find(ALL[-1].name) is ALL[-1]


def test_pages_show_each_exercise_with_hints_and_solution_folded():
    pytest.importorskip("sphinx")
    from types import SimpleNamespace

    from docs.chapters import DOCS
    from docs.generated_tables import Exercises

    for page, found in EXERCISES.items():
        assert f"```{{exercises}} {page}\n" in (DOCS / f"{page}.md").read_text()
        text = "\n".join(Exercises.markdown(SimpleNamespace(arguments=[page])))
        assert text.count("<details>") == text.count("</details>") == 2 * len(found)
        assert all(each.question in text and each.solution in text for each in found)
