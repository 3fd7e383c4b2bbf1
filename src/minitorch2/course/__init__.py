"""The course: the reading order of the book, and exercises that check themselves.

The package takes a reader's answer, a Python file. It gives what the checks of an exercise found:
passed, or what is wrong and a hint.

Read `chapters` (the order), then `exercise` (what an exercise is, and how an answer is checked) and
`__main__` (the command line). `exercises/` has a file for each chapter that has any.
`python -m minitorch2.course` lists them, `check 4.2` checks exercise 2 of chapter 4.
"""
