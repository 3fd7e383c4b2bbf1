"""TorchScript: a statically typed subset of Python, as a graph with control flow.

Takes functions and modules, by their source text or by a call; gives graphs that run without
Python's object model, and files (TorchScript overview).

    graph ::= graph(value*): node* return (value*)
    node  ::= value, ... = kind[name=attribute, ...](value, ...)   # file:line:column
              block0(value*): node* -> (value*) ...
    kind  ::= namespace::name        overloads are resolved from the types of the inputs
    value ::= %name : type
    type  ::= Tensor | Float(2, *, s0, requires_grad=1, device=cpu) | int | float | bool | str
            | NoneType | Scalar | Device | type[] | type? | (type, ...) | Dict(type, type)
            | Future(type) | NamedTuple | module name | class name
            | Enum(name)
    control ::= prim::If(cond) with 2 blocks, no inputs, as many outputs as the node
            | prim::Loop(trips, go, x...) with 1 block (i, a...) -> (go, b...)
    object  ::= prim::CreateObject() | prim::GetAttr[name](object)
            | prim::SetAttr[name](object, value) | prim::CallMethod[name](object, value*)
    member  ::= prim::EnumName(member) | prim::EnumValue(member)   comparisons are operators
    number  ::= prim::tolist(tensor), of the type of its output
    region  ::= prim::DifferentiableGraph_k | prim::FusionGroup_k   with a graph as attribute

Read the rooms from bottom to top. `syntax` makes trees of text. `ir` has types and graphs,
`operators` their schemas. `analysis` and `passes` work on graphs. `frontend` makes graphs of trees,
and `tracing` of calls. `runtime` runs graphs. `modules` and `archive` hold what users keep.
"""
