"""Breadth: programs that nobody chose for their result, each in a process of its own.

program ::= architecture of images (`images`) | of sequences (`sequences`) | attention of many kinds
            (`attention`) | small scientific program (`science`), in inference or in training,
            for one sample or a batch

Read `programs` for the list, `trial` for how a program is measured, `report` for the table.
"""
