; The machine that runs guards: the function that guard_machine.py describes and fills in.
;
; A method of CPython (METH_FASTCALL) whose `self` is (program, globals, builtins, kept, cells...).
; Words after a dollar are filled in by Python; the C functions are called through their addresses.
; Py_IncRef and Py_DecRef take NULL, too.

define ptr @guard(ptr %self, ptr %arguments, i64 %count) {
entry:
  %code = call ptr @tuple_item(ptr %self, i64 0)
  %program = call ptr @bytes(ptr %code)
  %size = load i64, ptr %program
  %parameters_p = getelementptr i64, ptr %program, i64 1
  %parameters = load i64, ptr %parameters_p
  %widest_p = getelementptr i64, ptr %program, i64 2
  %widest = load i64, ptr %widest_p
  %counted_p = getelementptr i64, ptr %program, i64 3
  %counted = load i64, ptr %counted_p
  %values = alloca ptr, i64 %size
  %numbers_of = alloca i64, i64 %counted
  %overflow = alloca i32
  %operands = alloca ptr, i64 %widest
  %position = alloca i64
  %key_p = alloca ptr
  %fits = icmp eq i64 %count, %parameters
  br i1 %fits, label %copy, label %misused
misused:
  call i32 @bad_argument()
  ret ptr null
copy:
  %copied = phi i64 [ 0, %entry ], [ %copied_next, %copy_one ]
  %copied_all = icmp eq i64 %copied, %count
  br i1 %copied_all, label %step, label %copy_one
copy_one:
  %from = getelementptr ptr, ptr %arguments, i64 %copied
  %to = getelementptr ptr, ptr %values, i64 %copied
  %argument = load ptr, ptr %from
  store ptr %argument, ptr %to
  %copied_next = add i64 %copied, 1
  br label %copy
step:
  %pc = phi i64 [ $header, %copy ], [ %after, %next ], [ %after, %push ],
                   [ %beyond, %skip ]
  %loaded = phi i64 [ %count, %copy ], [ %loaded, %next ], [ %loaded_next, %push ],
                       [ %loaded, %skip ]
  %here = getelementptr i64, ptr %program, i64 %pc
  %a_p = getelementptr i64, ptr %here, i64 1
  %b_p = getelementptr i64, ptr %here, i64 2
  %c_p = getelementptr i64, ptr %here, i64 3
  %op = load i64, ptr %here
  %a = load i64, ptr %a_p
  %b = load i64, ptr %b_p
  %c = load i64, ptr %c_p
  %bo = inttoptr i64 %b to ptr
  %x_p = getelementptr ptr, ptr %values, i64 %a
  %x = load ptr, ptr %x_p
  %after = add i64 %pc, 4
  %number_p = getelementptr i64, ptr %numbers_of, i64 %c
  switch i64 %op, label %holds [
$cases
  ]

; loads

op_constant:
  br label %borrowed
op_global:
  %globals = call ptr @tuple_item(ptr %self, i64 1)
  %global = call ptr @dict_item(ptr %globals, ptr %bo)
  %is_global = icmp ne ptr %global, null
  br i1 %is_global, label %borrowed, label %builtin
builtin:
  %builtins = call ptr @tuple_item(ptr %self, i64 2)
  %built_in = call ptr @dict_item(ptr %builtins, ptr %bo)
  br label %borrowed
op_cell:
  %cell_i = add i64 %b, 4
  %cell = call ptr @tuple_item(ptr %self, i64 %cell_i)
  %content = call ptr @cell_get(ptr %cell)
  br label %push
op_attribute:
  %attribute = call ptr @attribute(ptr %x, ptr %bo)
  br label %push
op_dict:
  %own_dict = call ptr @own_dict(ptr %x)
  br label %push
op_item:
  %item_class_p = getelementptr ptr, ptr %x, i64 1
  %item_class = load ptr, ptr %item_class_p
  %is_dict = icmp eq ptr %item_class, inttoptr (i64 $dict to ptr)
  br i1 %is_dict, label %dict_item, label %any_item
dict_item:
  %entry_value = call ptr @dict_item(ptr %x, ptr %bo)
  br label %borrowed
any_item:
  %item = call ptr @item(ptr %x, ptr %bo)
  br label %push
op_type:
  %type_p = getelementptr ptr, ptr %x, i64 1
  %type = load ptr, ptr %type_p
  br label %borrowed
op_call:
  %called = call ptr @call_one(ptr %bo, ptr %x)
  br label %push
borrowed:
  %seen = phi ptr [ %bo, %op_constant ], [ %global, %op_global ], [ %built_in, %builtin ],
                  [ %entry_value, %dict_item ], [ %type, %op_type ]
  %is_seen = icmp ne ptr %seen, null
  br i1 %is_seen, label %own, label %error
own:
  call void @incref(ptr %seen)
  br label %push
push:
  %new = phi ptr [ %seen, %own ], [ %content, %op_cell ], [ %attribute, %op_attribute ],
                 [ %own_dict, %op_dict ],
                 [ %item, %any_item ], [ %called, %op_call ]
  %new_p = getelementptr ptr, ptr %values, i64 %loaded
  store ptr %new, ptr %new_p
  %loaded_next = add i64 %loaded, 1
  %is_new = icmp ne ptr %new, null
  br i1 %is_new, label %step, label %error

; checks

op_is:
  %is = icmp eq ptr %x, %bo
  br i1 %is, label %next, label %fail
op_runs:
  %code_of_x = call ptr @code_of(ptr %x)
  %runs = icmp eq ptr %code_of_x, %bo
  br i1 %runs, label %next, label %fail
op_same:
  %y_p = getelementptr ptr, ptr %values, i64 %b
  %y = load ptr, ptr %y_p
  %same = icmp eq ptr %x, %y
  br i1 %same, label %next, label %fail
op_class:
  %class_p = getelementptr ptr, ptr %x, i64 1
  %class = load ptr, ptr %class_p
  %is_class = icmp eq ptr %class, %bo
  br i1 %is_class, label %next, label %fail
op_equal:
  %x_class_p = getelementptr ptr, ptr %x, i64 1
  %x_class = load ptr, ptr %x_class_p
  %b_class_p = getelementptr ptr, ptr %bo, i64 1
  %b_class = load ptr, ptr %b_class_p
  %same_class = icmp eq ptr %x_class, %b_class
  br i1 %same_class, label %compare, label %fail
compare:
  %equal = call i32 @equal(ptr %x, ptr %bo, i32 2)
  br label %answer
op_length:
  %length = call i64 @size(ptr %x)
  %right_length = icmp eq i64 %length, %b
  br i1 %right_length, label %next, label %no_length
no_length:
  %length_failed = icmp eq i64 %length, -1
  br i1 %length_failed, label %error, label %fail
op_keys:                                ; of an exact dict the keys are mostly the very same objects
  %keys_class_p = getelementptr ptr, ptr %x, i64 1
  %keys_class = load ptr, ptr %keys_class_p
  %of_dict = icmp eq ptr %keys_class, inttoptr (i64 $dict to ptr)
  br i1 %of_dict, label %keys_size, label %keys_any
keys_size:
  %keys_count = call i64 @dict_size(ptr %x)
  %wanted_count = call i64 @list_size(ptr %bo)
  store i64 0, ptr %position
  %same_count = icmp eq i64 %keys_count, %wanted_count
  br i1 %same_count, label %keys_next, label %fail
keys_next:
  %k = phi i64 [ 0, %keys_size ], [ %k_next, %keys_one ]
  %more = call i32 @dict_next(ptr %x, ptr %position, ptr %key_p, ptr null)
  %is_more = icmp ne i32 %more, 0
  br i1 %is_more, label %keys_one, label %next
keys_one:
  %key = load ptr, ptr %key_p
  %wanted = call ptr @list_item(ptr %bo, i64 %k)
  %k_next = add i64 %k, 1
  %same_key = icmp eq ptr %key, %wanted
  br i1 %same_key, label %keys_next, label %keys_any
keys_any:
  %keys = call ptr @as_list(ptr %x)
  %has_keys = icmp ne ptr %keys, null
  br i1 %has_keys, label %keys_compare, label %error
keys_compare:
  %equal_keys = call i32 @equal(ptr %keys, ptr %bo, i32 2)
  call void @decref(ptr %keys)
  br label %answer
op_contains:
  %contains = call i32 @contains(ptr %x, ptr %bo)
  %wants_present = icmp ne i64 %c, 0
  br i1 %wants_present, label %answer, label %opposite
op_truth:
  %truth = call i32 @truth(ptr %x)
  %wants_true = icmp ne i64 %b, 0
  br i1 %wants_true, label %answer, label %opposite
op_empty:
  %holder_class_p = getelementptr ptr, ptr %x, i64 1
  %holder_class = load ptr, ptr %holder_class_p
  %holder_is_dict = icmp eq ptr %holder_class, inttoptr (i64 $dict to ptr)
  br i1 %holder_is_dict, label %empty_entry, label %empty_item
empty_entry:                            ; most such values are dicts: no need to own them
  %inner = call ptr @dict_item(ptr %x, ptr %bo)
  %has_inner = icmp ne ptr %inner, null
  br i1 %has_inner, label %empty_class, label %error
empty_class:
  %inner_class_p = getelementptr ptr, ptr %inner, i64 1
  %inner_class = load ptr, ptr %inner_class_p
  %inner_is_dict = icmp eq ptr %inner_class, inttoptr (i64 $dict to ptr)
  %inner_is_ordered = icmp eq ptr %inner_class, inttoptr (i64 $ordered to ptr)
  %inner_is_known = or i1 %inner_is_dict, %inner_is_ordered
  br i1 %inner_is_known, label %empty_size, label %empty_own
empty_size:
  %inner_size = call i64 @dict_size(ptr %inner)
  %is_empty = icmp eq i64 %inner_size, 0
  br i1 %is_empty, label %next, label %fail
empty_own:
  call void @incref(ptr %inner)
  br label %empty_truth
empty_item:
  %any_inner = call ptr @item(ptr %x, ptr %bo)
  %has_any_inner = icmp ne ptr %any_inner, null
  br i1 %has_any_inner, label %empty_truth, label %error
empty_truth:
  %owned_inner = phi ptr [ %inner, %empty_own ], [ %any_inner, %empty_item ]
  %inner_truth = call i32 @truth(ptr %owned_inner)
  call void @decref(ptr %owned_inner)
  br label %opposite
opposite:
  %negated = phi i32 [ %contains, %op_contains ], [ %truth, %op_truth ],
                     [ %inner_truth, %empty_truth ]
  switch i32 %negated, label %error [ i32 0, label %next
                                      i32 1, label %fail ]
op_state:
  %co = inttoptr i64 %c to ptr
  %state = call ptr @call_none(ptr %bo)
  %has_state = icmp ne ptr %state, null
  br i1 %has_state, label %state_compare, label %error
state_compare:
  %equal_state = call i32 @equal(ptr %state, ptr %co, i32 2)
  call void @decref(ptr %state)
  br label %answer
op_unless_same:
  %word_a = load i32, ptr %bo
  %word_b_p = inttoptr i64 %c to ptr
  %word_b = load i32, ptr %word_b_p
  %is_same_word = icmp eq i32 %word_a, %word_b
  br i1 %is_same_word, label %skip, label %next
skip:
  %beyond = add i64 %after, 4
  br label %step
op_words:                               ; table: offset of a pointer, n, n x (offset, mask, word)
  %words_p = getelementptr i64, ptr %program, i64 %b
  %object_offset = load i64, ptr %words_p
  %word_count_p = getelementptr i64, ptr %words_p, i64 1
  %word_count = load i64, ptr %word_count_p
  %base_p = getelementptr i8, ptr %x, i64 %object_offset
  %base = load ptr, ptr %base_p
  %has_base = icmp ne ptr %base, null
  br i1 %has_base, label %word, label %fail
word:
  %w = phi i64 [ 0, %op_words ], [ %w_next, %word_right ]
  %w_p = phi ptr [ %words_p, %op_words ], [ %mask_p, %word_right ]
  %words_done = icmp eq i64 %w, %word_count
  br i1 %words_done, label %flag, label %word_one
word_one:
  %offset_p = getelementptr i64, ptr %w_p, i64 2
  %offset = load i64, ptr %offset_p
  %mask_p = getelementptr i64, ptr %w_p, i64 3
  %mask = load i64, ptr %mask_p
  %right_p = getelementptr i64, ptr %w_p, i64 4
  %right = load i64, ptr %right_p
  %given_p = getelementptr i8, ptr %base, i64 %offset
  %given = load i64, ptr %given_p
  %masked = and i64 %given, %mask
  %is_right = icmp eq i64 %masked, %right
  br i1 %is_right, label %word_right, label %fail
word_right:
  %w_next = add i64 %w, 1
  br label %word
flag:                                   ; then: offset of a pointer, of a byte, of a word; answer;
                                        ; the function to ask where neither is set
  %flag_offset_p = getelementptr i64, ptr %w_p, i64 2
  %flag_offset = load i64, ptr %flag_offset_p
  %byte_offset_p = getelementptr i64, ptr %w_p, i64 3
  %byte_offset = load i64, ptr %byte_offset_p
  %other_offset_p = getelementptr i64, ptr %w_p, i64 4
  %other_offset = load i64, ptr %other_offset_p
  %flag_wanted_p = getelementptr i64, ptr %w_p, i64 5
  %flag_wanted = load i64, ptr %flag_wanted_p
  %wants_flag = icmp ne i64 %flag_wanted, 0
  %meta_p = getelementptr i8, ptr %base, i64 %flag_offset
  %meta = load ptr, ptr %meta_p
  %has_meta = icmp ne ptr %meta, null
  br i1 %has_meta, label %flag_look, label %flag_answer
flag_look:
  %byte_p = getelementptr i8, ptr %meta, i64 %byte_offset
  %byte = load i8, ptr %byte_p
  %byte_set = icmp ne i8 %byte, 0
  %other_p = getelementptr i8, ptr %meta, i64 %other_offset
  %other = load i64, ptr %other_p
  %other_set = icmp ne i64 %other, 0
  %either = or i1 %byte_set, %other_set
  br i1 %either, label %flag_answer, label %flag_ask
flag_ask:
  %flag_function_p = getelementptr i64, ptr %w_p, i64 6
  %flag_function_address = load i64, ptr %flag_function_p
  %flag_function = inttoptr i64 %flag_function_address to ptr
  %asked = call ptr @call_one(ptr %flag_function, ptr %x)
  %has_asked = icmp ne ptr %asked, null
  br i1 %has_asked, label %flag_asked, label %error
flag_asked:
  %asked_truth = call i32 @truth(ptr %asked)
  call void @decref(ptr %asked)
  %asked_set = icmp sgt i32 %asked_truth, 0
  br label %flag_answer
flag_answer:
  %flag_is = phi i1 [ false, %flag ], [ true, %flag_look ], [ %asked_set, %flag_asked ]
  %flag_right = icmp eq i1 %flag_is, %wants_flag
  br i1 %flag_right, label %next, label %fail
op_distinct:                            ; table: offset of a pointer or 0, offset, then the numbers
  %distinct_p = getelementptr i64, ptr %program, i64 %b
  %holder_offset = load i64, ptr %distinct_p
  %held_offset_p = getelementptr i64, ptr %distinct_p, i64 1
  %held_offset = load i64, ptr %held_offset_p
  %numbers = getelementptr i64, ptr %distinct_p, i64 2
  %of_objects = icmp eq i64 %holder_offset, 0
  br label %distinct_i
distinct_i:
  %i = phi i64 [ 0, %op_distinct ], [ %i_next, %distinct_j ]
  %i_more = icmp ult i64 %i, %c
  br i1 %i_more, label %distinct_one, label %next
distinct_one:
  %i_next = add i64 %i, 1
  %i_number_p = getelementptr i64, ptr %numbers, i64 %i
  %i_number = load i64, ptr %i_number_p
  %i_value_p = getelementptr ptr, ptr %values, i64 %i_number
  %i_value = load ptr, ptr %i_value_p
  br i1 %of_objects, label %distinct_have, label %distinct_held
distinct_held:
  %holder_p = getelementptr i8, ptr %i_value, i64 %holder_offset
  %holder = load ptr, ptr %holder_p
  %has_holder = icmp ne ptr %holder, null
  br i1 %has_holder, label %distinct_read, label %fail
distinct_read:
  %held_p = getelementptr i8, ptr %holder, i64 %held_offset
  %held = load ptr, ptr %held_p
  br label %distinct_have
distinct_have:
  %mine = phi ptr [ %i_value, %distinct_one ], [ %held, %distinct_read ]
  %mine_p = getelementptr ptr, ptr %operands, i64 %i
  store ptr %mine, ptr %mine_p
  br label %distinct_j
distinct_j:
  %j = phi i64 [ 0, %distinct_have ], [ %j_next, %distinct_other ]
  %j_more = icmp ult i64 %j, %i
  br i1 %j_more, label %distinct_two, label %distinct_i
distinct_two:
  %other_one_p = getelementptr ptr, ptr %operands, i64 %j
  %other_one = load ptr, ptr %other_one_p
  %j_next = add i64 %j, 1
  %alike = icmp eq ptr %mine, %other_one
  br i1 %alike, label %fail, label %distinct_other
distinct_other:
  br label %distinct_j
op_python:
  %list = getelementptr i64, ptr %program, i64 %c
  %list_count = load i64, ptr %list
  br label %gather
gather:
  %g = phi i64 [ 0, %op_python ], [ %g_next, %gather_one ]
  %gathered = icmp eq i64 %g, %list_count
  br i1 %gathered, label %ask, label %gather_one
gather_one:
  %g_next = add i64 %g, 1
  %g_number_p = getelementptr i64, ptr %list, i64 %g_next
  %g_number = load i64, ptr %g_number_p
  %g_value_p = getelementptr ptr, ptr %values, i64 %g_number
  %g_value = load ptr, ptr %g_value_p
  %operand_p = getelementptr ptr, ptr %operands, i64 %g
  store ptr %g_value, ptr %operand_p
  br label %gather
ask:
  %said = call ptr @call(ptr %bo, ptr %operands, i64 %list_count, ptr null)
  %has_said = icmp ne ptr %said, null
  br i1 %has_said, label %weigh, label %error
weigh:
  %yes = call i32 @truth(ptr %said)
  call void @decref(ptr %said)
  br label %answer
answer:                                 ; 1: it holds, 0: it does not, -1: an exception
  %result = phi i32 [ %equal, %compare ], [ %equal_keys, %keys_compare ],
                    [ %contains, %op_contains ], [ %truth, %op_truth ],
                    [ %equal_state, %state_compare ], [ %yes, %weigh ]
  switch i32 %result, label %error [ i32 1, label %next
                                     i32 0, label %fail ]
next:
  br label %step

op_contiguous:                          ; table: offset of a pointer, of sizes, of strides; rank
  %layout_p = getelementptr i64, ptr %program, i64 %b
  %impl_offset = load i64, ptr %layout_p
  %sizes_offset_p = getelementptr i64, ptr %layout_p, i64 1
  %sizes_offset = load i64, ptr %sizes_offset_p
  %strides_offset_p = getelementptr i64, ptr %layout_p, i64 2
  %strides_offset = load i64, ptr %strides_offset_p
  %rank_p = getelementptr i64, ptr %layout_p, i64 3
  %rank = load i64, ptr %rank_p
  %impl_p = getelementptr i8, ptr %x, i64 %impl_offset
  %impl = load ptr, ptr %impl_p
  %sizes = getelementptr i8, ptr %impl, i64 %sizes_offset
  %strides = getelementptr i8, ptr %impl, i64 %strides_offset
  br label %dimension
dimension:                              ; from the last one to the first
  %dims = phi i64 [ %rank, %op_contiguous ], [ %d, %dimension_one ]
  %full = phi i64 [ 1, %op_contiguous ], [ %full_next, %dimension_one ]
  %dense = phi i1 [ true, %op_contiguous ], [ %dense_next, %dimension_one ]
  %no_dims = icmp eq i64 %dims, 0
  br i1 %no_dims, label %dimensions_done, label %dimension_some
dimensions_done:
  br i1 %dense, label %next, label %fail
dimension_some:
  %d = sub i64 %dims, 1
  %extent_p = getelementptr i64, ptr %sizes, i64 %d
  %extent = load i64, ptr %extent_p
  %stride_p = getelementptr i64, ptr %strides, i64 %d
  %stride = load i64, ptr %stride_p
  %no_elements = icmp eq i64 %extent, 0
  br i1 %no_elements, label %next, label %dimension_one
dimension_one:
  %is_step = icmp eq i64 %stride, %full
  %is_one = icmp eq i64 %extent, 1
  %fits_in = or i1 %is_step, %is_one
  %dense_next = and i1 %dense, %fits_in
  %full_next = mul i64 %full, %extent
  br label %dimension

; numbers: each goes to its place c

op_size:                                ; b: offset of a pointer, times 2**32, plus offset
  %owner_offset = lshr i64 %b, 32
  %size_offset = and i64 %b, 4294967295
  %owner_p = getelementptr i8, ptr %x, i64 %owner_offset
  %owner = load ptr, ptr %owner_p
  %extent_of_p = getelementptr i8, ptr %owner, i64 %size_offset
  %extent_of = load i64, ptr %extent_of_p
  br label %number
op_int:
  %as_int = call i64 @as_int(ptr %x, ptr %overflow)
  %overflown = load i32, ptr %overflow
  %is_overflown = icmp ne i32 %overflown, 0
  br i1 %is_overflown, label %fail, label %int_fits
int_fits:
  %maybe_no_int = icmp eq i64 %as_int, -1
  br i1 %maybe_no_int, label %no_number, label %number
op_float:
  %as_float = call double @as_float(ptr %x)
  %as_bits = bitcast double %as_float to i64
  %maybe_no_float = fcmp oeq double %as_float, -1.0
  br i1 %maybe_no_float, label %no_number, label %number
no_number:
  %read = phi i64 [ %as_int, %int_fits ], [ %as_bits, %op_float ]
  %read_error = call ptr @error()
  %is_read = icmp eq ptr %read_error, null
  br i1 %is_read, label %number, label %error
op_number:
  br label %number
op_add:
  br label %operate
op_mul:
  br label %operate
op_div:
  br label %operate
op_mod:
  br label %operate
op_max:
  br label %operate
op_less:
  br label %operate
op_alike:
  br label %operate
op_float_less:
  br label %operate
op_float_alike:
  br label %operate
operate:                                ; on the numbers a and b
  %left_p = getelementptr i64, ptr %numbers_of, i64 %a
  %second_p = getelementptr i64, ptr %numbers_of, i64 %b
  %left = load i64, ptr %left_p
  %second = load i64, ptr %second_p
  switch i64 %op, label %holds [ i64 $add, label %do_add
                                 i64 $mul, label %do_mul
                                 i64 $div, label %do_div
                                 i64 $mod, label %do_div
                                 i64 $max, label %do_max
                                 i64 $less, label %do_less
                                 i64 $alike, label %do_alike
                                 i64 $float_less, label %do_float_less
                                 i64 $float_alike, label %do_float_alike ]
do_add:
  %added = call { i64, i1 } @llvm.sadd.with.overflow.i64(i64 %left, i64 %second)
  br label %exact
do_mul:
  %multiplied = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %left, i64 %second)
  br label %exact
exact:
  %pair = phi { i64, i1 } [ %added, %do_add ], [ %multiplied, %do_mul ]
  %wrapped = extractvalue { i64, i1 } %pair, 1
  %whole = extractvalue { i64, i1 } %pair, 0
  br i1 %wrapped, label %fail, label %number
do_div:                                 ; by a positive number, rounded down
  %positive = icmp sgt i64 %second, 0
  br i1 %positive, label %divide, label %fail
divide:
  %cut = sdiv i64 %left, %second
  %rest = srem i64 %left, %second
  %is_below = icmp slt i64 %rest, 0
  %lower = sub i64 %cut, 1
  %raised_rest = add i64 %rest, %second
  %quotient = select i1 %is_below, i64 %lower, i64 %cut
  %remainder = select i1 %is_below, i64 %raised_rest, i64 %rest
  %is_div = icmp eq i64 %op, $div
  %divided = select i1 %is_div, i64 %quotient, i64 %remainder
  br label %number
do_max:
  %is_greater = icmp sgt i64 %left, %second
  %greatest = select i1 %is_greater, i64 %left, i64 %second
  br label %number
do_less:
  %is_less = icmp slt i64 %left, %second
  br label %yes_or_no
do_alike:
  %is_alike = icmp eq i64 %left, %second
  br label %yes_or_no
do_float_less:
  %left_float = bitcast i64 %left to double
  %right_float = bitcast i64 %second to double
  %is_float_less = fcmp olt double %left_float, %right_float
  br label %yes_or_no
do_float_alike:
  %left_real = bitcast i64 %left to double
  %right_real = bitcast i64 %second to double
  %is_float_alike = fcmp oeq double %left_real, %right_real
  br label %yes_or_no
yes_or_no:
  %answered = phi i1 [ %is_less, %do_less ], [ %is_alike, %do_alike ],
                     [ %is_float_less, %do_float_less ], [ %is_float_alike, %do_float_alike ]
  %as_number = zext i1 %answered to i64
  br label %number
number:
  %result_number = phi i64 [ %extent_of, %op_size ], [ %as_int, %int_fits ],
                           [ %as_bits, %op_float ], [ %read, %no_number ], [ %b, %op_number ],
                           [ %whole, %exact ], [ %divided, %divide ], [ %greatest, %do_max ],
                           [ %as_number, %yes_or_no ]
  store i64 %result_number, ptr %number_p
  br label %next
op_agree:                               ; the number a is b
  %agreeing_p = getelementptr i64, ptr %numbers_of, i64 %a
  %agreeing = load i64, ptr %agreeing_p
  %agrees = icmp eq i64 %agreeing, %b
  br i1 %agrees, label %next, label %fail

; ends

op_holds:
  br label %holds
holds:
  br label %finish
fail:
  br label %finish
error:
  %raised = call ptr @error()
  %has_raised = icmp ne ptr %raised, null
  br i1 %has_raised, label %judge, label %fail
judge:
  %expected = call i32 @error_is(ptr inttoptr (i64 $errors to ptr))
  %is_expected = icmp ne i32 %expected, 0
  br i1 %is_expected, label %forgive, label %finish
forgive:
  call void @error_clear()
  br label %fail
finish:
  %verdict = phi ptr [ inttoptr (i64 $true to ptr), %holds ],
                     [ inttoptr (i64 $false to ptr), %fail ], [ null, %judge ]
  br label %release
release:
  %last = phi i64 [ %loaded, %finish ], [ %r, %release_one ]
  %released = icmp eq i64 %last, %count
  br i1 %released, label %done, label %release_one
release_one:
  %r = sub i64 %last, 1
  %r_p = getelementptr ptr, ptr %values, i64 %r
  %r_value = load ptr, ptr %r_p
  call void @decref(ptr %r_value)
  br label %release
done:
  call void @incref(ptr %verdict)
  ret ptr %verdict
}

declare { i64, i1 } @llvm.sadd.with.overflow.i64(i64, i64)
declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)
