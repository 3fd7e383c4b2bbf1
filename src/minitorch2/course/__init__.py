"""The course: the reading order of the book, and exercises that check themselves.

`python -m minitorch2.course` lists the chapters, `check 4.2` checks exercise 2 of chapter 4.

Read `chapters` (the order), `exercise` (what an exercise is), `answers` (how an answer is found and
checked) and `__main__` (the command line). `exercises/` has a file for each chapter.
"""
