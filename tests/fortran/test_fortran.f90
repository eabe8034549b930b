! The Fortran module in one process: values, texts, arguments that are absent, wrong ones, callbacks, sizes of structs.
module hooks
    use, intrinsic :: iso_c_binding
    use weft
    implicit none
    integer :: hooks_called = 0
contains
    function count_hook(leaf, gradient, context) result(status) bind(C)
        type(weft_tensor), value :: leaf, gradient
        type(c_ptr), value :: context
        integer(c_int) :: status
        if (weft_tensor_num_elements(leaf) == weft_tensor_num_elements(gradient)) hooks_called = hooks_called + 1
        if (c_associated(context)) hooks_called = hooks_called + 10
        status = WEFT_OK
    end function
end module

program test_fortran
    use, intrinsic :: iso_c_binding
    use weft
    use hooks
    implicit none
    integer :: failed = 0, failed_before
    type(weft_config) :: config

    config%ranks = 4
    call weft_init(config)
    call weft_mesh_push(weft_mesh_create([2, 2], [character(5) :: 'dp', 'model']))
    call begin('check_sizes')
    call check_sizes(failed)
    call end_case('check_sizes')
    call begin('values')
    call values()
    call end_case('values')
    call begin('columns')
    call columns()
    call end_case('columns')
    call begin('texts')
    call texts()
    call end_case('texts')
    call begin('absent')
    call absent()
    call end_case('absent')
    call begin('refused')
    call refused()
    call end_case('refused')
    call begin('gradients')
    call gradients()
    call end_case('gradients')
    call begin('parameters')
    call parameters()
    call end_case('parameters')
    call expect(weft_last_status() == WEFT_OK, 'no error: ' // weft_last_error())
    call weft_mesh_pop()
    call weft_finalize()
    print '(a)', '[==========] 8 test(s) run.'
    if (failed > 0) error stop 1

contains

    ! As cmocka says it.
    subroutine begin(name)
        character(*), intent(in) :: name
        failed_before = failed
        print '(2a)', '[ RUN      ] ', name
    end subroutine

    subroutine end_case(name)
        character(*), intent(in) :: name
        print '(2a)', merge('[       OK ] ', '[  FAILED  ] ', failed == failed_before), name
    end subroutine

    subroutine expect(holds, what)
        logical, intent(in) :: holds
        character(*), intent(in) :: what
        if (.not. holds) then
            failed = failed + 1
            print *, 'failed: ', what
        end if
    end subroutine

    subroutine values()
        type(weft_tensor) :: a, b
        real(c_double), target :: host(3, 2)
        real(c_double) :: item
        integer(c_int64_t) :: large
        call weft_scope_begin()
        a = weft_arange(WEFT_F64, 0d0, 6d0, 1d0)
        b = weft_reshape(a, [2, 3])
        call expect(all(weft_tensor_shape(b) == [2, 3]), 'shape')
        b = weft_matmul(b, weft_transpose(b, 0, 1))
        call weft_tensor_item(weft_sum(b, ior(weft_dim(0), weft_dim(-1)), .false.), item)
        call expect(item == 5 + 14 + 14 + 50, 'product')
        call weft_add_inplace(a, a, 2d0)
        call weft_to_host(weft_reshape(a, [2, 3]), c_loc(host), c_sizeof(host))
        call expect(all(host == reshape([0, 3, 6, 9, 12, 15], [3, 2])), 'in place, to host')
        large = 4
        call weft_tensor_item(weft_select(a, 0, large), item)
        call expect(item == 12, 'a size of 64 bits')
        call weft_scope_end()
    end subroutine

    ! A matrix of the program's, column-major, with a leading dimension; the same indices in weft.
    subroutine columns()
        real(c_double), target :: matrix(5, 3)
        type(weft_tensor) :: a
        type(weft_subarray) :: mine
        integer :: i, j
        real(c_double) :: item
        matrix = -1
        do j = 1, 3
            do i = 1, 4
                matrix(i, j) = 10 * i + j
            end do
        end do
        call weft_scope_begin()
        mine%data = c_loc(matrix)
        mine%box%extent(1:2) = [4, 3]
        mine%strides(1:2) = [1, 5]
        a = weft_from_boxes(WEFT_F64, [4, 3], [mine], placements=[weft_shard(0), weft_replicate()])
        call weft_tensor_item(weft_select(weft_select(a, 0, 2), 0, 1), item)
        call expect(item == 32, 'row 3, column 2')
        call weft_to_boxes(weft_scale(a, 2d0), [mine])
        call weft_scope_end()
        call weft_wait()
        call expect(matrix(3, 2) == 64 .and. all(matrix(5, :) == -1), 'written back')
    end subroutine

    subroutine texts()
        type(weft_mesh) :: mesh
        type(weft_tensor) :: a
        type(weft_placement) :: placements(2)
        character(:), allocatable :: text, names(:)
        integer, allocatable :: ranks(:)
        mesh = weft_mesh_current()
        call expect(weft_mesh_dim_name(mesh, 1) == 'model', 'name of a dimension')
        call weft_mesh_names(mesh, names)
        call expect(size(names) == 2 .and. names(1) == 'dp' .and. names(2) == 'model', 'all names')
        call weft_mesh_ranks(mesh, ranks)
        call expect(all(ranks == [0, 1, 2, 3]), 'ranks')
        call weft_placements_parse('S0,R   ', placements)
        call weft_placements_format(placements, text)
        call expect(text == 'S0,R', 'placements: ' // text)
        call expect(all(placements%kind == [WEFT_PLACEMENT_KIND_SHARD, WEFT_PLACEMENT_KIND_REPLICATE]), 'kinds')
        placements = [weft_partial(WEFT_REDUCE_OP_MAX), weft_partial(WEFT_REDUCE_OP_SUM)]
        call expect(all(placements%kind == WEFT_PLACEMENT_KIND_PARTIAL), 'Partial')
        call expect(placements(1)%op == WEFT_REDUCE_OP_MAX .and. placements(2)%op == WEFT_REDUCE_OP_SUM, 'op')
        placements = [weft_shard(0), weft_replicate()]
        a = weft_zeros(WEFT_F32, [4, 2], placements=placements)
        call weft_tensor_set_name(a, 'heights')
        call expect(index(weft_tensor_describe(a), 'heights: f32[4, 2] [S0,R]') == 1, weft_tensor_describe(a))
        call weft_tensor_print_text(a, text)
        call expect(index(text, 'heights') > 0 .and. index(text, '0') > 0, 'printed: ' // text)
        call expect(weft_version() == WEFT_VERSION_TEXT, 'version')
        call expect(weft_status_string(WEFT_ERR_SHAPE) /= '', 'status')
        call weft_tensor_release(a)
    end subroutine

    subroutine absent()
        type(weft_tensor) :: x, w, y, indices
        call weft_scope_begin()
        x = weft_ones(WEFT_F32, [3, 4])
        w = weft_ones(WEFT_F32, [2, 4])
        y = weft_linear(x, w)
        y = weft_linear(x, w, weft_ones(WEFT_F32, [2]))
        y = weft_rms_norm(x, epsilon=1d-6)
        y = weft_sort(x, 0, .false.)
        call expect(.not. c_associated(indices%handle), 'none yet')
        y = weft_sort(x, 0, .true., indices)
        call expect(weft_tensor_dtype(indices) == WEFT_I64, 'indices')
        y = weft_attention(weft_ones(WEFT_F32, [2, 3]), weft_ones(WEFT_F32, [2, 3]), weft_ones(WEFT_F32, [2, 3]), &
                           weft_attention_options(causal=.true._c_bool))
        call expect(c_associated(y%handle), 'options')
        call weft_scope_end()
    end subroutine

    ! A wrong argument is a status, and nothing is read beyond an array.
    subroutine refused()
        integer(c_int) :: status
        type(weft_tensor) :: none
        type(weft_mesh) :: mesh
        none = weft_add(none, none)
        call expect(.not. c_associated(none%handle) .and. weft_last_status() == WEFT_ERR_INVALID, 'no tensor')
        call weft_clear_error()
        none = weft_zeros(WEFT_F64, [4], placements=[weft_shard(0)])
        call expect(.not. c_associated(none%handle) .and. weft_last_status() /= WEFT_OK, 'too few placements')
        call weft_clear_error()
        mesh = weft_mesh_create([2, 2], ['one'])
        call expect(.not. c_associated(mesh%handle), 'too few names')
        call weft_clear_error()
        call weft_mesh_push(mesh, status)
        call expect(status == WEFT_ERR_INVALID, 'status')
        call weft_clear_error()
        call weft_add_inplace(none, none, 1d0, status)
        call expect(status /= WEFT_OK, 'status in place')
        call weft_clear_error()
    end subroutine

    subroutine gradients()
        type(weft_tensor) :: w, loss
        type(weft_tensor) :: leaves(1), found(1)
        real(c_double) :: item
        w = weft_full(WEFT_F64, 2d0, [3])
        call weft_set_requires_grad(w, .true.)
        call weft_set_grad_hook(w, count_hook)
        call weft_scope_begin()
        loss = weft_sum(weft_mul(w, w), 0, .false.)
        call weft_backward(loss)
        call expect(hooks_called == 1, 'hook')
        leaves = [w]
        found = [weft_grad(w)]
        call weft_sgd(leaves, found, weft_sgd_options(learning_rate=0.25d0))
        call weft_tensor_item(weft_sum(w, 0, .false.), item)
        call expect(item == 3, 'step')
        call weft_zero_grad(leaves)
        call expect(weft_is_leaf(weft_zeros(ior(WEFT_F64, WEFT_WITH_GRAD), [3])), 'a leaf as it is made')
        call weft_scope_end()
        call weft_tensor_release(w)
    end subroutine

    subroutine parameters()
        type(weft_module) :: root
        type(weft_tensor), allocatable :: tensors(:)
        character(:), allocatable :: names(:)
        root = weft_module_create('layer')
        call weft_module_add_parameter(root, 'weight', weft_ones(WEFT_F32, [2, 2]))
        call weft_module_add_parameter(root, 'b', weft_ones(WEFT_F32, [2]))
        call weft_module_parameters(root, names, tensors)
        call expect(size(tensors) == 2 .and. names(1) == 'weight' .and. names(2) == 'b', 'names of parameters')
        call weft_module_destroy(root)
    end subroutine
end program
