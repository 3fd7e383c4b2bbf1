"""The exercises, a file for each chapter. Importing this package fills `exercise.EXERCISES`."""

from minitorch2.course.exercises import aliasing as aliasing
from minitorch2.course.exercises import backends as backends
from minitorch2.course.exercises import breaks as breaks
from minitorch2.course.exercises import bytecode as bytecode
from minitorch2.course.exercises import captures as captures
from minitorch2.course.exercises import codegen as codegen
from minitorch2.course.exercises import cut as cut
from minitorch2.course.exercises import files as files
from minitorch2.course.exercises import frames as frames
from minitorch2.course.exercises import front_end as front_end
from minitorch2.course.exercises import functional as functional
from minitorch2.course.exercises import gradients as gradients
from minitorch2.course.exercises import graphs as graphs
from minitorch2.course.exercises import guards as guards
from minitorch2.course.exercises import joint as joint
from minitorch2.course.exercises import lazy_steps as lazy_steps
from minitorch2.course.exercises import loops as loops
from minitorch2.course.exercises import native as native
from minitorch2.course.exercises import plans as plans
from minitorch2.course.exercises import scripts as scripts
from minitorch2.course.exercises import sizes as sizes
from minitorch2.course.exercises import ssa as ssa
from minitorch2.course.exercises import values as values
from minitorch2.course.exercises import wrapper as wrapper
