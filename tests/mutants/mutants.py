"""The planted bugs: for each, what is wrong and which property test must find it.

Every layer has some. A property test that lets one through is too weak and must be made stronger;
a bug that is easier to find would prove nothing.
"""

import gc
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from minitorch2.api import compile_options
from minitorch2.autograd import runtime
from minitorch2.autograd.decompositions import activations
from minitorch2.autograd.epilogue import Epilogue
from minitorch2.autograd.recompute import is_recomputable
from minitorch2.backends.graph_cache import key as graph_key
from minitorch2.bytecode.building import objects
from minitorch2.bytecode.dispatch.region import Region
from minitorch2.bytecode.frames import skip_files
from minitorch2.bytecode.frames.worth import is_worth_capturing
from minitorch2.bytecode.guards import containers, guard_program, guard_text, values
from minitorch2.bytecode.guards.torch_state import GlobalState
from minitorch2.bytecode.machine.liveness import live_sets
from minitorch2.bytecode.machine.versions import rules
from minitorch2.bytecode.residual import breaks
from minitorch2.bytecode.trackers.base import VariableTracker
from minitorch2.bytecode.trackers.captured_overrides import Overrides
from minitorch2.bytecode.trackers.descriptors import class_attribute
from minitorch2.bytecode.trackers.python_values import identity, records
from minitorch2.bytecode.trackers.python_values.context_variables import ContextVarEffect
from minitorch2.bytecode.trackers.python_values.functions import UserFunctionVariable
from minitorch2.bytecode.trackers.python_values.python_module import PythonModuleVariable
from minitorch2.bytecode.trackers.python_values.random_generator import (
    RandomStateEffect,
    SelectedVariable,
)
from minitorch2.bytecode.trackers.python_values.sequence import SequenceVariable
from minitorch2.bytecode.trackers.side_effects import CallEffect, SideEffects
from minitorch2.bytecode.trackers.torch_values import (
    checkpoint_rules,
    engine_rules,
    hooks,
    leaves,
    nn_module,
    selection,
    tensor_constructors,
)
from minitorch2.cache import storage
from minitorch2.codegen import extern
from minitorch2.codegen.memory import Memory
from minitorch2.codegen.numba.handler import NumbaHandler
from minitorch2.codegen.triton import reductions as triton_reductions
from minitorch2.codegen.triton.kernel import KernelPrinter
from minitorch2.foundation.generated_code import is_generated
from minitorch2.graph import data_dependent, history, raising
from minitorch2.graph.fake_tensor import FakeTensor
from minitorch2.graph.kernel_launch import KernelLaunch
from minitorch2.graph.node import SourceLine
from minitorch2.graph.passes import eliminate_common_subexpressions, eliminate_dead_code
from minitorch2.graph.passes.fold_constants import _is_constant
from minitorch2.graph.patterns import apply
from minitorch2.graph.scope import Scope, is_name
from minitorch2.graph.symbols.sym_node import SymNode
from minitorch2.lazy import barrier, defer, program, record, step
from minitorch2.loopir import fusion, fusion_region, lower_graph, memory_plan
from minitorch2.loopir.handlers.interpreter import ELEMENTWISE_RULES
from minitorch2.loopir.lowering import combine, creation
from minitorch2.native.cpython import frame_hook
from minitorch2.native.kernel_library import vecmath  # noqa: F401 - fills the library
from minitorch2.native.kernel_library.library import LIBRARY
from minitorch2.native.torch_internals import accumulators, tensor_layout
from minitorch2.script.analysis.alias_db import AliasDb
from minitorch2.script.frontend import exit_transform, to_ssa
from minitorch2.script.frontend.emit_iteration import RangeSugar
from minitorch2.script.passes import (
    eliminate_common_subexpressions as merging,
)
from minitorch2.script.passes import insert_bailouts, regions, simplify_branches
from minitorch2.script.passes.eliminate_dead_code import Needed
from minitorch2.script.runtime import code, python_code
from minitorch2.script.runtime.variables import Variables
from minitorch2.script.syntax.expression_parser import ExpressionParser
from minitorch2.script.syntax.lexer import Lexer
from tests.mutants.planting import Edit, Swap, Together
from tests.property import (
    test_bytecode_machine,
    test_capture_programs,
    test_capture_values,
    test_dynamic_shapes,
    test_errors,
    test_graph_cache,
    test_graphs,
    test_guard_handlers,
    test_guards,
    test_jagged_programs,
    test_joint_graphs,
    test_lazy_programs,
    test_loop_bodies,
    test_lowering_families,
    test_numba_kernels,
    test_operations,
    test_rare_parts,
    test_results,
    test_rewriting,
    test_script_aliasing,
    test_script_passes,
    test_script_programs,
    test_script_syntax,
    test_state,
    test_subclasses,
    test_surroundings,
    test_tensor_objects,
    test_training_programs,
    test_transforms,
    test_triton_kernels,
    test_unbacked,
    test_wrappers,
)


@dataclass(frozen=True)
class Mutant:
    """A bug.

    Attributes:
        layer: the layer that has it.
        bug: what the layer then does wrong.
        plant: the change.
        found_by: the property test that must fail.
        examples: how many random examples may be needed at most.
    """

    layer: str
    bug: str
    plant: Edit | Swap | Together
    found_by: Callable[..., Any]
    examples: int = 100

    @property
    def name(self) -> str:
        """The layer and the bug, as a test's name."""
        return f"{self.layer}: {self.bug}".replace(" ", "-")


def forget_skipped_code() -> None:
    """Let the frame hook ask again about all code but its own, that of closures to come too."""
    skip_files.is_skipped_file.cache_clear()
    gc.unfreeze()  # the functions of earlier tests are frozen, and would not be found
    # `isinstance` would raise: it asks a weak proxy for the class of its object, which may be gone
    functions = [each for each in gc.get_objects() if type(each) is FunctionType]
    waiting = [each.__code__ for each in functions if each.__module__ != frame_hook.__name__]
    while waiting:
        code = waiting.pop()
        frame_hook.unskip(code)
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]


MUTANTS = (
    Mutant(
        "bytecode machine",
        "variables that only an exception handler reads are dead",
        Edit(live_sets, "if instruction.handler is not None:", "if False:"),
        test_bytecode_machine.test_split_function_behaves_the_same,
        examples=400,
    ),
    Mutant(
        "bytecode machine",
        "`is not` is read as `is`, `not in` as `in`",
        Edit(rules.decode_invertible, "bool(raw.arg)", "False"),
        test_bytecode_machine.test_round_trip_behaves_the_same,
    ),
    Mutant(
        "bytecode capture",
        "both sides of a graph break at a branch go on in the same place",
        Edit(breaks._pop_jump, "end.resume(end.target(instruction))",
             "end.resume(end.evaluator.position + 1)"),
        test_capture_programs.test_captured_programs_match_cpython,
    ),
    Mutant(
        "bytecode capture",
        "changes of dicts that came from outside are lost",  # of lists, loops would not end
        Edit(SideEffects.mutated, "container.source is not None or ",
             "container.source is not None and container.python_type() is not dict or "),
        test_capture_programs.test_captured_programs_match_cpython,
    ),
    Mutant(
        "bytecode capture",
        "of two writes to a global variable the first one counts",
        Edit(SideEffects.store_global, "effect.pending = value", "pass"),
        test_capture_programs.test_captured_programs_match_cpython,
    ),
    Mutant(
        "bytecode capture",
        "of two gradients of a leaf the second one counts",
        Edit(engine_rules._accumulate, '"add_", [gradient]', '"copy_", [gradient]'),
        test_training_programs.test_gradients_arrive_as_in_eager,
        examples=30,
    ),
    Mutant(
        "bytecode capture",
        "hooks of leaves are lost",
        Edit(hooks.hooks_of_leaf, "if real is None or leaf.source is None:", "if True:"),
        test_training_programs.test_gradients_arrive_as_in_eager,
        examples=30,
    ),
    Mutant(
        "bytecode capture",
        "hooks that the captured code sets on a leaf are not called",
        Edit(hooks.hooks_of_leaf, "if isinstance(pending, VariableTracker):", "if False:"),
        test_training_programs.test_hooks_that_a_step_sets_are_called,
        examples=30,
    ),
    Mutant(
        "bytecode capture",
        "hooks that the captured code sets on a module are not called",
        Edit(nn_module.ModuleVariable._changed_dict,
             "if found is None and self.source is not None:", "if False:"),
        test_training_programs.test_hooks_that_a_step_sets_are_called,
        examples=30,
    ),
    Mutant(
        "bytecode capture",
        "the backward program that Python runs in a step is captured",
        Together(
            (Edit(is_generated, "file.startswith(PREFIX) or file in _WRITTEN", "False"),
             Edit(skip_files.runs_apart, "is_generated(file) or file.startswith(COMPILER)",
                  "False")),
            forget_skipped_code,
        ),
        test_training_programs.test_generated_programs_are_not_captured,
        examples=10,
    ),
    Mutant(
        "bytecode capture",
        "hooks are not called where captured code finds the gradient of what it computes",
        Edit(engine_rules._hooked, "*watched(evaluator.capture).get(tensor, ()),", ""),
        test_training_programs.test_hooks_that_a_step_sets_are_called,
        examples=60,
    ),
    Mutant(
        "guards",
        "hooks on the accumulation of gradients are overlooked",
        Edit(accumulators.is_hooked, "layout is None or layout.is_hooked(tensor)", "False"),
        test_training_programs.test_gradients_arrive_as_in_eager,
        examples=30,
    ),
    Mutant(
        "bytecode capture",
        "instances do not see what was assigned to their class",
        Edit(class_attribute, "if not written:", "if True:"),
        test_capture_values.test_programs_of_python_values_match_cpython,
    ),
    Mutant(
        "bytecode capture",
        "methods of a named tuple do not take the place of a tuple's",
        Edit(records.is_record, " and _is_plain(cls)", ""),
        test_capture_values.test_programs_of_python_values_match_cpython,
    ),
    Mutant(
        "bytecode capture",
        "a context variable that is set is not set at the end",
        Edit(ContextVarEffect.emit, ".set(", ".get("),
        test_capture_values.test_programs_of_python_values_match_cpython,
    ),
    Mutant(
        "bytecode capture",
        "a generator that was seeded is left as it was",
        Edit(RandomStateEffect.emit, "residual.emit(", "str("),
        test_capture_values.test_programs_of_python_values_match_cpython,
    ),
    Mutant(
        "bytecode capture",
        "what is chosen at random is always the first",
        Edit(SelectedVariable.reconstruct, "{residual.load(self.index)}", "0"),
        test_capture_values.test_programs_of_python_values_match_cpython,
    ),
    Mutant(
        "bytecode capture",
        "warnings are not issued",
        Edit(CallEffect.emit, "residual.emit(", "str("),
        test_capture_values.test_programs_of_python_values_match_cpython,
    ),
    Mutant(
        "bytecode capture",
        "a key whose class has a hash of its own is looked up as an object",
        Edit(VariableTracker.hash_key, "if rule is not object.__hash__:", "if False:"),
        test_operations.test_operations_on_two_values,
        examples=300,
    ),
    Mutant(
        "guards",
        "sizes of tensors are not guarded",
        Edit(tensor_layout.TensorLayout._words,
             ", *_row(self.sizes, value)]", "]"),
        test_guards.test_calls_in_changing_worlds_match_python,
    ),
    Mutant(
        "guards",
        "the values of numbers and strings are not guarded",
        Edit(values.ConstantMatch.checks, 'yield Check("constant", Op.EQUAL, self.value)', "pass"),
        test_guards.test_calls_in_changing_worlds_match_python,
    ),
    Mutant(
        "guards",
        "the order of a dict's keys is not guarded",
        Edit(containers.ElementsMatch.checks, "Op.KEYS, known", "Op.LENGTH, len(known)"),
        test_guards.test_calls_in_changing_worlds_match_python,
    ),
    Mutant(
        "guards",
        "the text of a check says the opposite of what runs",
        Edit(guard_text._print_comparison, 'return now if known else f"not {now}"', "return now"),
        test_guard_handlers.test_text_machine_and_explanation_agree,
    ),
    Mutant(
        "guards",
        "what runs takes an absent key for a present one",
        Edit(guard_program._Writer._write_one, "int(check.known)", "1"),
        test_guard_handlers.test_text_machine_and_explanation_agree,
    ),
    Mutant(
        "guards",
        "a function that another one replaced is taken for the same",
        Edit(values.IdMatch.checks, 'yield Check("identity", Op.IS, self.held)', "yield from ()"),
        test_state.test_after_any_change_calls_are_eagers,
    ),
    Mutant(
        "guards",
        "the code of a function is not guarded",
        Edit(values.IdMatch.__post_init__, "isinstance(value, FunctionType)", "False"),
        test_state.test_after_any_change_calls_are_eagers,
        examples=300,
    ),
    Mutant(
        "guards",
        "a function of PyTorch that was replaced is the old one",
        Edit(PythonModuleVariable.get_attribute, "if fixed and callable(value):", "if False:"),
        test_state.test_after_changes_of_pytorch_calls_are_eagers,
        examples=300,
    ),
    Mutant(
        "guards",
        "an attribute that a function gets later is not seen",
        Edit(UserFunctionVariable.get_attribute, "if pending is None:", "if False:"),
        test_state.test_after_any_change_calls_are_eagers,
        examples=300,
    ),
    Mutant(
        "guards",
        "code that was captured without deterministic algorithms runs with them",
        Edit(GlobalState.checks, "is_deterministic = bool(value)",
             "is_deterministic = bool(value); continue"),
        test_state.test_after_changes_of_pytorch_calls_are_eagers,
        examples=300,
    ),
    Mutant(
        "bytecode capture",
        "an option that compile is given is ignored",
        Edit(compile_options._values, "chosen[name] = value", "pass"),
        test_surroundings.test_options_reach_the_backend,
    ),
    Mutant(
        "bytecode capture",
        "a backend that fails stops the program",
        Edit(Region.suppresses_errors, "self.settings().suppress_errors", "False"),
        test_surroundings.test_a_backend_that_fails_stops_no_program,
    ),
    Mutant(
        "bytecode capture",
        "the text of a shape has the names of its symbols",
        Edit(SequenceVariable.py___repr__, "str(one.as_constant()) for one in shown",
             "repr(one) for one in self.realized()"),
        test_surroundings.test_texts_of_sizes_are_pythons,
    ),
    Mutant(
        "bytecode capture",
        "a name is given that the program has, too",
        Edit(Scope.__contains__, "or any(name in names for names in self._taken)", ""),
        test_surroundings.test_a_scope_gives_each_name_once,
    ),
    Mutant(
        "bytecode capture",
        "a graph that is given dual tensors loses their tangents",
        Edit(is_worth_capturing, "if forward_level() >= 0:", "if False:"),
        test_transforms.test_tangents_of_dual_tensors_are_eagers,
    ),
    Mutant(
        "wrapper",
        "a sparse gradient leaves a graph as a dense one",
        Edit(extern.copy_to_layout, "if tensor.layout is not torch.strided:\n        return tensor",
             "tensor = tensor.to_dense()"),
        test_training_programs.test_sparse_gradients_are_eagers,
        examples=30,
    ),
    Mutant(
        "bytecode capture",
        "a checkpoint that writes to a buffer is computed again as a whole",
        Edit(checkpoint_rules.checkpoint, "if _writes_outside(body):", "if False:"),
        test_training_programs.test_gradients_of_rare_modules_are_eagers,
        examples=30,
    ),
    Mutant(
        "bytecode capture",
        "a module that TorchScript has made is evaluated like any other",
        Edit(objects.wrap_module, "if is_scripted_module(value):", "if False:"),
        test_rare_parts.test_models_with_scripted_parts_are_eagers,
        examples=20,
    ),
    Mutant(
        "bytecode capture",
        "the override that classes of tensors inherit asks the overrides again",
        Edit(Overrides.disable, "self.of_modes = False,", "self.of_modes = self.of_classes,"),
        test_subclasses.test_classes_of_tensors_match_eager,
    ),
    Mutant(
        "bytecode capture",
        "an attribute that is no name of Python's is written behind a dot",
        Edit(is_name, "text.isidentifier() and not keyword.iskeyword(text)", "True"),
        test_rare_parts.test_attributes_and_files_have_any_name,
    ),
    Mutant(
        "guards",
        "classes that guards know live as long as the guards",
        Edit(values.hold, "weakref.ref(value)", "lambda: value"),
        test_rare_parts.test_classes_and_functions_die_with_their_programs,
        examples=10,
    ),
    Mutant(
        "graph",
        "a file's name that no file can hold stands in generated text",
        Edit(SourceLine.__str__, '.encode("utf-8", "backslashreplace").decode()', ""),
        test_rare_parts.test_attributes_and_files_have_any_name,
    ),
    Mutant(
        "graph",
        "expressions of sizes grow without bound",
        Edit(SymNode.make, "operations_in(expr) > LONGEST", "False"),
        test_rare_parts.test_sizes_have_short_expressions,
    ),
    Mutant(
        "graph",
        "a constant that has a symbolic size is folded",
        Edit(_is_constant, "if free_symbols((node.args, node.kwargs, tuple(sizes))):",
             "if False:"),
        test_dynamic_shapes.test_kernels_agree_with_eager_for_all_sizes,
    ),
    Mutant(
        "graph",
        "a mask that is counted twice gives two sizes",
        Edit(data_dependent.counted, ", *kind, x.elements", ""),
        test_unbacked.test_a_program_that_meets_any_data_first_is_one_graph,
    ),
    Mutant(
        "graph",
        "a result of a branch is taken for what one of its sides computes",
        Edit(FakeTensor.renew, "self.meta = self.meta.detach()", "pass"),
        test_unbacked.test_elements_of_other_computations_are_counted_apart,
    ),
    Mutant(
        "graph",
        "a kernel of the user's that writes is taken for one that reads",
        Edit(KernelLaunch.written, "if name in names:", "if False:"),
        test_rare_parts.test_launches_of_triton_kernels_are_eagers,
        examples=10,
    ),
    Mutant(
        "scheduler",
        "kernels that are too many for one are compared loop by loop",
        Edit(fusion_region.Region._refusal, "refusal and refusal.is_of_loops and", "refusal and"),
        test_rare_parts.test_few_pairs_of_kernels_are_examined,
    ),
    Mutant(
        "wrapper",
        "what a kernel of the user's has written in place is given to another result",
        Edit(Memory._reused, "call.given_away().values()", "()"),
        test_rare_parts.test_operators_that_write_are_eagers,
        examples=60,
    ),
    Mutant(
        "loopir",
        "equal values that an operator of the user's writes are one tensor",
        Edit(lower_graph._GraphLowering._is_owned, "reader.args.count(argument) > 1", "False"),
        test_rare_parts.test_operators_that_write_are_eagers,
        examples=400,
    ),
    Mutant(
        "graph cache",
        "what is cached under other options is taken",
        Edit(graph_key.key_of_graph, "options=_options(),", 'options="",'),
        test_surroundings.test_the_cache_tells_options_apart,
    ),
    Mutant(
        "graph cache",
        "entries are read in folders to which others can write",
        Edit(storage.is_trusted, "why_unsafe(folder()) or why_unsafe(directory)", "None"),
        test_surroundings.test_only_folders_that_nobody_else_writes_to_are_read,
    ),
    Mutant(
        "loopir",
        "new memory is 0 where deterministic algorithms fill it",
        Edit(creation.empty, "_uninitialized(current_table().result.dtype) if is_filled else 0",
             "0"),
        test_surroundings.test_new_memory_is_filled_where_algorithms_are_deterministic,
    ),
    Mutant(
        "graph",
        "a call that may raise and that nobody reads is dead code",
        Edit(raising.must_run, "is_impure(node) or may_raise(node)", "is_impure(node)"),
        test_errors.test_no_exception_is_lost,
    ),
    Mutant(
        "graph",
        "two random tensors of one kind are merged",
        Edit(eliminate_common_subexpressions, "_key(node) if _is_candidate(node) else None",
             '_key(node) if node.op == "call_function" else None'),
        test_graphs.test_passes_keep_effects,
    ),
    Mutant(
        "graph",
        "equal reads are merged across a write",
        Edit(eliminate_common_subexpressions,
             "if any(is_mutating(node) for node in graph.nodes):", "if False:"),
        test_graphs.test_passes_keep_effects,
    ),
    Mutant(
        "graph",
        "a write whose result nobody reads is dead code",
        Edit(eliminate_dead_code, "node.users or must_run(node) or",
             'node.users or (must_run(node) and node.op != "call_method") or'),
        test_graphs.test_passes_keep_effects,
    ),
    Mutant(
        "graph",
        "a rewrite moves a read behind a write",
        Edit(apply._something_happens, "is_impure(node) and not is_random(node)", "False"),
        test_rewriting.test_fused_attention_keeps_values_and_writes,
    ),
    Mutant(
        "autograd",
        "random masks are drawn again in backward",
        Edit(is_recomputable, "or is_impure(node):\n        return False",
             "or is_impure(node):\n        return node.op == 'call_function'"),
        test_joint_graphs.test_partitions_obey_their_rules,
    ),
    Mutant(
        "autograd",
        "the derivative of gelu lacks its second term",
        Edit(activations.gelu_backward, "grad * (distribution + x * density)",
             "grad * distribution"),
        test_joint_graphs.test_gradients_of_functional_programs,
    ),
    Mutant(
        "autograd",
        "writes to inputs that need no gradient are not written back",
        Edit(Epilogue._copy_in_turn, "call_in_grad_mode(mode, target.copy_, value)", "pass"),
        test_graphs.test_values_memory_and_mutations_are_eagers,
    ),
    Mutant(
        "autograd",
        "what a jagged tensor is made of has no gradient beside the tensor",
        Edit(history.has_own_gradient, 'getattr(history, "variable", None) is not base', "False"),
        test_jagged_programs.test_programs_on_jagged_tensors_are_eagers,
    ),
    Mutant(
        "autograd",
        "a result that is a view of memory of the graph may not be written to",
        Edit(runtime._without_base, "value.detach() if is_view else value", "value"),
        test_results.test_results_may_be_written_to_as_in_eager,
    ),
    Mutant(
        "loopir",
        "maximum and minimum change places in the NumPy interpreter",
        Swap(ELEMENTWISE_RULES, "loopir.handlers.interpreter: ELEMENTWISE_RULES",
             "maximum", "minimum"),
        test_loop_bodies.test_programs_agree_with_eager,
    ),
    Mutant(
        "loopir",
        "a concatenation's part ends one element late",
        Edit(combine._part, "before_end = ops.lt(", "before_end = ops.le("),
        test_loop_bodies.test_programs_agree_with_eager,
    ),
    Mutant(
        "scheduler",
        "nodes are fused although the reader reads other addresses than were written",
        Edit(fusion._check_addresses, "if None in wanted or not _same(written, wanted) or not "
             "equal(write.offset, read.offset):", "if False:"),
        test_numba_kernels.test_programs_agree_with_eager,
    ),
    Mutant(
        "scheduler",
        "memory is reused before its last reader",
        Edit(memory_plan._find_last_uses, "last[name] = position",
             "last.setdefault(name, position)"),
        test_numba_kernels.test_kernels_agree_with_the_interpreter,
        examples=300,
    ),
    Mutant(
        "wrapper",
        "a buffer is freed one step before its last use",
        Edit(vars(Memory)["_dead"].func, "dead[last]", "dead[last - 1]"),
        test_wrappers.test_memory,
    ),
    Mutant(
        "wrapper",
        "of the buffers that a kernel computes, the first one is not made",
        Edit(Memory.allocated, "for name in computed if", "for name in computed[1:] if"),
        test_wrappers.test_memory,
    ),
    Mutant(
        "wrapper",
        "a dead tensor is the memory of a later result, whatever its layout",
        Edit(Memory._reused, "spare.pop(self.layout_of(name), None)",
             "spare.popitem()[1] if spare else None"),
        test_wrappers.test_memory,
    ),
    Mutant(
        "codegen numba",
        "a coefficient of the exponential's polynomial is wrong in the third digit",
        Edit(LIBRARY["minitorch2_expm1_reduced"].python, "0.1666666685", "0.1656666685"),
        test_numba_kernels.test_functions_are_accurate,
    ),
    Mutant(
        "codegen numba",
        "what is masked off is 0 instead of the given value",
        Edit(NumbaHandler.masked, "self.constant(other, ", "self.constant(0, "),
        test_numba_kernels.test_kernels_agree_with_the_interpreter,
    ),
    Mutant(
        "bytecode capture",
        "behind a break an id is not found among the numbers that ids became",
        Edit(identity.key_among, "if kinds and", "if False and"),
        test_tensor_objects.test_tensors_are_the_objects_that_they_are_in_eager,
        examples=400,
    ),
    Mutant(
        "bytecode capture",
        "a graph breaks between a tensor and a later question about its gradient",
        Edit(hooks.check_asked, "if ASKING.isdisjoint(code.co_names):", "if True:"),
        test_tensor_objects.test_hooks_that_end_graphs_change_the_gradients_that_they_change_in_eager,
        examples=400,
    ),
    Mutant(
        "bytecode capture",
        "a kept gradient misses what flows through another tensor that keeps its own",
        Edit(leaves.check_leaves, "if each[0] != id(fake)", "if id(fake) not in inner"),
        test_tensor_objects.test_hooks_that_end_graphs_change_the_gradients_that_they_change_in_eager,
        examples=400,
    ),
    Mutant(
        "bytecode capture",
        "hooks in the graph change no gradient",
        Edit(hooks._record_hook, "[] if is_none else", "[] if True else"),
        test_tensor_objects.test_tensors_are_the_objects_that_they_are_in_eager,
        examples=400,
    ),
    Mutant(
        "bytecode capture",
        "a write to what max has chosen is lost",
        Edit(selection.Selection.is_seen, "shown | capture.written", "shown"),
        test_tensor_objects.test_tensors_are_the_objects_that_they_are_in_eager,
        examples=400,
    ),
    Mutant(
        "bytecode capture",
        "Tensor.new of a shape makes a tensor of the numbers in it",
        Edit(tensor_constructors._of_sizes_or_data, "isinstance(args[0], SizeVariable)", "False"),
        test_tensor_objects.test_tensors_are_the_objects_that_they_are_in_eager,
        examples=400,
    ),
    Mutant(
        "codegen numba",
        "the bits of a 16-bit float are those of a float32, cut",
        Edit(NumbaHandler._pattern, "known or self.assign(self._element(value, dtype)",
             'self.assign(f"uint16(bits({value}))"'),
        test_lowering_families.test_bits_viewed_as_integers_and_back_are_eagers,
    ),
    Mutant(
        "graph cache",
        "a cached graph is served to another graph with inputs of the same kind",
        Edit(graph_key.key_of_graph, "graph=digest,", 'graph="",'),
        test_graph_cache.test_no_program_gets_the_graph_of_another,
    ),
    Mutant(
        "lazy",
        "a program runs steps of any numbers",
        Edit(program.Program.admits, "return False", "return True"),
        test_lazy_programs.test_lazy_programs_match_cpython,
    ),
    Mutant(
        "lazy",
        "a step that only writes does not run",
        Edit(barrier._compute, "if live or step.writes:", "if live:"),
        test_lazy_programs.test_lazy_programs_match_cpython,
    ),
    Mutant(
        "lazy",
        "a look at memory does not wait for the reads and writes of the step",
        Edit(step.Step.has_memory_of, "return data.layout is torch.strided", "return False"),
        test_lazy_programs.test_programs_of_views_and_writes_match_eager,
        examples=40,
    ),
    Mutant(
        "lazy",
        "inputs that share memory are inputs apart",
        Edit(record._enter, "memory = None if first == len(step.inputs) else",
             "memory = None if True else"),
        test_lazy_programs.test_programs_of_views_and_writes_match_eager,
        examples=40,
    ),
    Mutant(
        "lazy",
        "a step does not know that it writes",
        Edit(defer._record, "step.writes or any(", "False and any("),
        test_lazy_programs.test_programs_of_views_and_writes_match_eager,
        examples=40,
    ),
    Mutant(
        "lazy",
        "a step does not know that it is in a region",
        Edit(defer.defer_unexpected, "current().in_region = in_region", "pass"),
        test_lazy_programs.test_programs_of_views_and_writes_match_eager,
        examples=40,
    ),
    Mutant(
        "lazy",
        "a view shows the memory that its tensor was given later",
        Edit(step.Step.end, "value.data = value.data.detach()", "pass"),
        test_lazy_programs.test_programs_of_views_and_writes_match_eager,
        examples=120,
    ),
    Mutant(
        "codegen triton",
        "the mask leaves out the last element",
        Edit(KernelPrinter._mask, "index < {dim}numel", "index < {dim}numel - 1"),
        test_triton_kernels.test_kernels_give_the_bits_of_the_numpy_interpreter,
    ),
    Mutant(
        "codegen triton",
        "a maximum's padding is 0 instead of the smallest number",
        Edit(triton_reductions._neutral,
             'return float("-inf") if dtype.is_floating_point else torch.iinfo(dtype).min',
             "return 0"),
        test_triton_kernels.test_kernels_agree_with_the_numpy_interpreter,
        examples=300,
    ),
    Mutant(
        "script",
        "dead code ignores writes that the caller sees",
        Edit(Needed._is_seen, "bool(self._aliases.own_writes(writer) & self._seen)", "False"),
        test_script_passes.test_all_passes_together_change_nothing_that_a_caller_sees,
    ),
    Mutant(
        "script",
        "a tensor that the graph holds is memory of one run",
        Edit(AliasDb._node, "self._point(node.output, [self._tracker.wildcard])", "pass"),
        test_script_passes.test_all_passes_together_change_nothing_that_a_caller_sees,
        examples=300,
    ),
    Mutant(
        "script",
        "a write is moved across a read of the same memory",
        Edit(AliasDb.depends, "b_writes & self.reads(a)", "False"),
        test_script_aliasing.test_moves_that_are_allowed_change_no_result,
        examples=1000,
    ),
    Mutant(
        "script",
        "the interpreter goes round a loop once more",
        Edit(code._next, "count + 1 < most", "count < most"),
        test_script_programs.test_scripts_do_what_cpython_does,
        examples=40,
    ),
    Mutant(
        "script",
        "generated Python computes expressions in another order than the program",
        Edit(python_code._Writer._take, "!= wanted:", "!= wanted and False:"),
        test_script_programs.test_scripts_do_what_cpython_does,
        examples=40,
    ),
    Mutant(
        "script",
        "a variable is written to before its last reader has read it",
        Edit(Variables._is_later, "return self._positions[user] > at", "return False"),
        test_script_programs.test_scripts_do_what_cpython_does,
        examples=40,
    ),
    Mutant(
        "script",
        "an expression behind a write counts as computed before it",
        Edit(merging.may_merge, "any(aliases.has_writers(value) for value in again.inputs)",
             "False"),
        test_script_passes.test_all_passes_together_change_nothing_that_a_caller_sees,
        examples=300,
    ),
    Mutant(
        "script",
        "a region swallows what is printed between its operators",
        Edit(regions.runs, "elif found[-1]:",
             'elif found[-1] and node.kind != "prim::Print":'),
        test_script_passes.test_all_passes_together_change_nothing_that_a_caller_sees,
        examples=300,
    ),
    Mutant(
        "script",
        "a node that a later one depends on is moved out of a region behind it",
        Edit(regions.gather, "[each for each in reversed(between) if moves(each, node)]",
             "[each.move_after(node) or each for each in reversed(between)]"),
        test_script_passes.test_all_passes_together_change_nothing_that_a_caller_sees,
        examples=300,
    ),
    Mutant(
        "script",
        "a line that ends two blocks ends one",
        Edit(Lexer._indentation, "while width < indents[-1]:", "if width < indents[-1]:"),
        test_script_programs.test_scripts_do_what_cpython_does,
        examples=40,
    ),
    Mutant(
        "script",
        "`not` takes all that follows it",
        Edit(ExpressionParser._first, "_NOT - 1 if", "_LOOSEST if"),
        test_script_syntax.test_expressions_have_the_trees_of_python,
    ),
    Mutant(
        "script",
        "a loop over a range begins with 0 and takes each number",
        Edit(RangeSugar.iteration, "self.start.constant() == 0 and self.step.constant() == 1",
             "True"),
        test_script_programs.test_scripts_do_what_cpython_does,
        examples=40,
    ),
    Mutant(
        "script",
        "what follows a branch that leaves runs in that branch",
        Edit(exit_transform._Exits.sink, "if leaves[0] else", "if leaves[1] else"),
        test_script_programs.test_scripts_do_what_cpython_does,
        examples=40,
    ),
    Mutant(
        "script",
        "a loop does not carry the names that only its inner blocks set",
        Edit(to_ssa._stored, "block.all_nodes()", "block.nodes"),
        test_script_programs.test_scripts_do_what_cpython_does,
        examples=40,
    ),
    Mutant(
        "script",
        "what a loop carries counts as unchanged",
        Edit(simplify_branches._read_unchanged, "again is inside and ", ""),
        test_script_passes.test_all_passes_together_change_nothing_that_a_caller_sees,
        examples=300,
    ),
    Mutant(
        "script",
        "a bailout in a loop runs iterations that were done before it again",
        Edit(insert_bailouts._remaining_iterations, '"aten::sub"', '"aten::add"'),
        test_script_passes.test_a_guard_that_fails_anywhere_bails_out_to_the_rest_of_the_program,
        examples=300,
    ),
)  # fmt: skip
