"""The interpreter: runs `Code` as it is, without any optimization.

Its state is registers, a stack and the number of the next instruction. So a run can stop at a
`wait` whose task has not ended. It goes on when the task has, on whichever thread (TorchScript
overview, "Interpreter").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from minitorch2.native.torch_internals.gradients import write_grad_mode
from minitorch2.script.ir.graph import Graph
from minitorch2.script.runtime.code import Code, Stack
from minitorch2.script.runtime.fork_join import Future, carried, pool
from minitorch2.script.runtime.meanings import BailedOut, Makers, abandon_context


class InterpreterState:
    """One execution of a `Code`."""

    def __init__(self, code: Code, inputs: Sequence[Any], registers: list[Any]) -> None:
        self.code = code
        self.registers = registers
        self.stack: Stack = list(inputs)
        self.counter = 0
        self._contexts: list[Any] = []
        self._grad_mode = torch.is_grad_enabled()

    def advance(self) -> Future | None:
        """Run to the end, or to a `wait` whose task has not ended; return its future then."""
        instructions = self.code.instructions
        try:
            while self.counter < len(instructions):
                instruction = instructions[self.counter]
                if instruction.name == "wait":
                    future = self.registers[instruction.inputs[0]]
                    if isinstance(future, Future) and not future.is_done:
                        return future
                self._follow(instruction.name, instruction.inputs)
                self._gather(instruction.inputs, instruction.moves)
                self.counter += 1 + instruction.operation(self.stack)
                for register in reversed(instruction.outputs):
                    self.registers[register] = self.stack.pop()
        except BailedOut as bailed:
            self.stack = list(bailed.results)
            self.counter = len(instructions)
        except BaseException:
            while self._contexts:
                abandon_context(self._contexts.pop())
            write_grad_mode(self._grad_mode)
            raise
        return None

    def _gather(self, inputs: Sequence[int], moves: Sequence[bool]) -> None:
        for register, last in zip(inputs, moves, strict=True):
            self.stack.append(self.registers[register])
            if last:
                self.registers[register] = None

    def _follow(self, name: str, inputs: Sequence[int]) -> None:
        """Note the objects that are entered, whose end an error must not skip."""
        if name == "Enter":
            self._contexts.append(self.registers[inputs[0]])
        elif name == "Exit" and self._contexts:
            self._contexts.pop()

    def result(self) -> Any:
        """Return what the graph gives: None, a value, or a tuple of several."""
        if len(self.stack) == 1:
            return self.stack[0]
        return tuple(self.stack) if self.stack else None


def interpret(graph: Graph) -> Callable[..., Any]:
    """Return a graph as a function of its inputs that the interpreter runs."""
    interpreter = Interpreter(Code(graph, Makers(interpret, interpret, interpret)))
    return lambda *inputs: interpreter.run(inputs)


class Interpreter:
    """Runs one `Code`. Lists of registers are used again, so that a run allocates none."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self._spare: list[list[Any]] = []

    def run(self, inputs: Sequence[Any]) -> Any:
        """Return what the graph gives for some inputs; block where a task is waited for."""
        state = self._state(inputs)
        while (future := state.advance()) is not None:
            future.join()
        return self._finish(state)

    def start(self, inputs: Sequence[Any]) -> Future:
        """Begin a run and return its future; no thread is blocked while a task is waited for."""
        state, result = self._state(inputs), Future()

        def go_on() -> None:
            try:
                future = state.advance()
            except BaseException as error:  # noqa: BLE001  # who waits raises it
                result.set_error(error)
                return
            if future is None:
                result.set_result(self._finish(state))
            else:
                resumed = carried(go_on)
                future.then(lambda: pool().submit(resumed))

        go_on()
        return result

    def _state(self, inputs: Sequence[Any]) -> InterpreterState:
        registers = self._spare.pop() if self._spare else [None] * self.code.registers
        return InterpreterState(self.code, inputs, registers)

    def _finish(self, state: InterpreterState) -> Any:
        for register in range(len(state.registers)):
            state.registers[register] = None
        self._spare.append(state.registers)
        return state.result()
