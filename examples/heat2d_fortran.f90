! Heat in a plate of nx x ny points, cut in both dimensions: MPI and weft in the same arrays u(0:columns+1, 0:rows+1), whose
! border are ghosts. A column of an array is a row of the tensor. heat2d.c is the same program in C. The steps are taken by MPI
! alone, then by an operation of the program's own, whose kernel is the subroutine step_kernel; ends with status 1 unless both have
! the same bits.
!
!     mpifort heat2d_fortran.f90 $(pkg-config --cflags --libs weft-fortran) -o heat2d && mpirun -n 4 ./heat2d
module plate
    use, intrinsic :: iso_c_binding
    use weft
    implicit none

contains

    ! Points of one row: the mean of each itself, four times, and its four neighbours.
    pure subroutine step_row(next, above, row, below, columns)
        integer, intent(in) :: columns
        real(c_double), intent(out) :: next(columns)
        real(c_double), intent(in) :: above(columns), row(0:columns + 1), below(columns)
        integer :: x
        do x = 1, columns
            next(x) = 0.125d0 * (4 * row(x) + row(x - 1) + row(x + 1) + above(x) + below(x))
        end do
    end subroutine

    ! One task: some rows of `next`, from those of `now` and the rows and columns beside them.
    subroutine step_kernel(call) bind(C)
        type(weft_kernel_call), intent(in) :: call
        real(c_double), pointer :: next(:), above(:), row(:), below(:)
        integer(c_int64_t) :: i, first
        integer :: columns
        columns = int(call%outputs(1)%extent(2))
        do i = 0, weft_view_rows(call%outputs(1)) - 1
            first = call%outputs(1)%offset(1) + i - call%inputs(1)%offset(1)
            call c_f_pointer(weft_view_row(call%outputs(1), i), next, [columns])
            call c_f_pointer(weft_view_row(call%inputs(1), first - 1), above, [columns + 2])
            call c_f_pointer(weft_view_row(call%inputs(1), first), row, [columns + 2])
            call c_f_pointer(weft_view_row(call%inputs(1), first + 1), below, [columns + 2])
            call step_row(next, above(2:columns + 1), row, below(2:columns + 1), columns)
        end do
    end subroutine
end module

program heat2d
    use plate
    implicit none
    include 'mpif.h'
    integer, parameter :: nx = 37, ny = 41, steps = 30
    character(kind=c_char), target :: name(7) = ['h', 'e', 'a', 't', '2', 'd', c_null_char]
    character(kind=c_char), target :: rule(13) = ['y', 'x', ',', 'y', '~', 'x', '~', '-', '>', 'y', 'x', c_null_char, c_null_char]
    character(kind=c_char), target :: next_name(5) = ['n', 'e', 'x', 't', c_null_char], now_name(4) = ['n', 'o', 'w', c_null_char]
    real(c_double), allocatable, target :: u(:, :), v(:, :)
    real(c_double), allocatable :: plain(:, :), other(:, :)
    integer :: error, provided, process, processes, grid, parts(2) = 0, columns, rows, x, y, step
    integer(c_int64_t) :: offset(2), extent(2)
    type(weft_operation_description) :: description
    type(weft_operation) :: heat
    type(weft_tensor) :: now, next, former
    type(weft_placement) :: tiles(2)
    type(weft_ghosts) :: around
    logical :: failed

    call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided, error)
    call MPI_Comm_rank(MPI_COMM_WORLD, process, error)
    call MPI_Comm_size(MPI_COMM_WORLD, processes, error)
    call MPI_Dims_create(processes, 2, parts, error)
    call MPI_Cart_create(MPI_COMM_WORLD, 2, parts, [.false., .false.], .false., grid, error)
    call weft_init_mpi(MPI_COMM_WORLD)
    call weft_mesh_push(weft_mesh_create(parts))
    tiles = [weft_shard_balanced(0), weft_shard_balanced(1)]
    call weft_shard_box(weft_mesh_current(), tiles, int([ny, nx], c_int64_t), weft_first_rank(), offset, extent)
    rows = int(extent(1))
    columns = int(extent(2))
    allocate(u(0:columns + 1, 0:rows + 1), v(0:columns + 1, 0:rows + 1))
    do y = 0, rows + 1
        do x = 0, columns + 1
            u(x, y) = start(int(offset(2)) + x, int(offset(1)) + y)
        end do
    end do
    v = u
    plain = u
    other = u

    description%name = c_loc(name)
    description%rule = c_loc(rule)
    description%inputs(1) = weft_operation_input(c_loc(next_name), shiftl(1, WEFT_F64), .false._c_bool)
    description%inputs(2) = weft_operation_input(c_loc(now_name), shiftl(1, WEFT_F64), .false._c_bool)
    description%outputs(1)%in_place = .true._c_bool
    description%kernel = c_funloc(step_kernel)
    description%halos(1) = weft_halo(input=1, letter='y', before=1, after=1)
    description%halos(2) = weft_halo(input=1, letter='x', before=1, after=1)
    description%takes_strides = .true._c_bool
    heat = weft_operation_register(description)

    do step = 1, steps
        call exchange(plain)
        do y = 1, rows
            call step_row(other(1:columns, y), plain(1:columns, y - 1), plain(:, y), plain(1:columns, y + 1), columns)
        end do
        call swap(plain, other)
    end do

    around%before(1:2) = 1
    around%after(1:2) = 1
    around%star = .true._c_bool
    call weft_scope_begin()
    now = weft_from_ghosted(WEFT_F64, [ny, nx], [c_loc(u)], around, placements=tiles)
    next = weft_from_ghosted(WEFT_F64, [ny, nx], [c_loc(v)], around, placements=tiles)
    do step = 1, steps
        former = weft_apply(heat, [next, now])
        former = now
        now = next
        next = former
    end do
    call weft_scope_end()
    call weft_wait()                                ! now the arrays have the values; after even steps u has the last ones

    failed = weft_last_status() /= WEFT_OK
    if (.not. failed) failed = any(u(1:columns, 1:rows) /= plain(1:columns, 1:rows))
    if (failed) print *, 'process', process, 'differs', weft_last_error()
    if (process == 0 .and. .not. failed) print '(i0, a)', processes, ' processes: as MPI'
    call weft_finalize()
    call MPI_Finalize(error)
    if (failed) error stop 1

contains

    ! Outside of the plate, the temperature of its border.
    pure function start(x, y) result(heat)
        integer, intent(in) :: x, y
        real(c_double) :: heat
        heat = merge(1d0, 0d0, y == 0)
        if (x >= 1 .and. x <= nx .and. y >= 1 .and. y <= ny) heat = sin(0.3d0 * x) * cos(0.2d0 * y)
    end function

    subroutine swap(a, b)
        real(c_double), allocatable, intent(inout) :: a(:, :), b(:, :)
        real(c_double), allocatable :: c(:, :)
        call move_alloc(a, c)
        call move_alloc(b, a)
        call move_alloc(c, b)
    end subroutine

    ! Ghost rows and columns of one array, from the neighbours of the grid.
    subroutine exchange(a)
        real(c_double), intent(inout) :: a(0:columns + 1, 0:rows + 1)
        real(c_double) :: sent(rows), got(rows)
        integer :: before, after, status(MPI_STATUS_SIZE)
        call MPI_Cart_shift(grid, 0, 1, before, after, error)
        call MPI_Sendrecv(a(1, 1), columns, MPI_DOUBLE_PRECISION, before, 0, a(1, rows + 1), columns, MPI_DOUBLE_PRECISION, after, &
            0, grid, status, error)
        call MPI_Sendrecv(a(1, rows), columns, MPI_DOUBLE_PRECISION, after, 1, a(1, 0), columns, MPI_DOUBLE_PRECISION, before, 1, &
            grid, status, error)
        call MPI_Cart_shift(grid, 1, 1, before, after, error)
        got = a(columns + 1, 1:rows)
        sent = a(1, 1:rows)
        call MPI_Sendrecv(sent, rows, MPI_DOUBLE_PRECISION, before, 2, got, rows, MPI_DOUBLE_PRECISION, after, 2, grid, &
            status, error)
        a(columns + 1, 1:rows) = got
        got = a(0, 1:rows)
        sent = a(columns, 1:rows)
        call MPI_Sendrecv(sent, rows, MPI_DOUBLE_PRECISION, after, 3, got, rows, MPI_DOUBLE_PRECISION, before, 3, grid, &
            status, error)
        a(0, 1:rows) = got
    end subroutine
end program
