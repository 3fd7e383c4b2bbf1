"""Operators: schemas with alias annotations, overloads, and what each computes."""
