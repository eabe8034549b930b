! The heat equation on a ring of n cells, for several rods at once, with MPI and arrays of the program's own: each process has
! some cells of all rods, u(rods, cells), column-major as Fortran has it. weft takes the arrays where they lie, computes the steps,
! and writes the result back. Compared with a plain loop; ends with status 1 if anything is wrong.
!
!     mpifort heat_fortran.f90 $(pkg-config --cflags --libs weft-fortran) -o heat && mpirun -n 3 ./heat
program heat
    use, intrinsic :: iso_c_binding
    use weft
    implicit none
    include 'mpif.h'
    integer, parameter :: n = 101, rods = 4, steps = 25
    real(c_double), parameter :: rate = 0.2d0
    integer :: error, provided, process, processes, first, cells, i, step
    real(c_double), allocatable, target :: u(:, :)
    real(c_double) :: expected(rods, n), next(rods, n), worst
    type(weft_tensor) :: now, later
    type(weft_subarray) :: mine
    logical :: failed

    call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided, error)
    call MPI_Comm_rank(MPI_COMM_WORLD, process, error)
    call MPI_Comm_size(MPI_COMM_WORLD, processes, error)
    call weft_init_mpi(MPI_COMM_WORLD)
    call weft_mesh_push(weft_mesh_create([processes]))

    ! n / p cells, and one more for the first processes: any cut will do.
    cells = n / processes + merge(1, 0, process < mod(n, processes))
    first = process * (n / processes) + min(process, mod(n, processes))
    allocate(u(rods, cells))
    do i = 1, cells
        u(:, i) = start(first + i)
    end do

    ! A tensor of n rows, rods columns. Its rows are the array's columns, so memory is row-major for weft.
    mine%box%offset(1:2) = [first, 0]
    mine%box%extent(1:2) = [cells, rods]
    mine%data = c_loc(u)
    call weft_scope_begin()
    now = weft_from_boxes(WEFT_F64, [n, rods], [mine], placements=[weft_shard(0)])
    do step = 1, steps
        later = weft_add(weft_roll(now, 1, 0), weft_roll(now, -1, 0))
        now = weft_add_scaled(weft_scale(now, 1 - 2 * rate), later, rate)
    end do
    call weft_to_boxes(now, [mine])
    call weft_scope_end()
    call weft_wait()                                ! now the array has the values

    do i = 1, n
        expected(:, i) = start(i)
    end do
    do step = 1, steps
        next = (1 - 2 * rate) * expected + rate * (cshift(expected, 1, 2) + cshift(expected, -1, 2))
        expected = next
    end do
    worst = 0
    if (cells > 0) worst = maxval(abs(u - expected(:, first + 1:first + cells)))
    failed = .not. worst < 1d-12 .or. weft_last_status() /= WEFT_OK
    if (failed) print *, 'process', process, 'differs by', worst, weft_last_error()
    if (process == 0 .and. .not. failed) print '(i0, a)', processes, ' processes: as the plain loop'
    call weft_finalize()
    call MPI_Finalize(error)
    if (failed) error stop 1

contains

    function start(cell) result(heights)
        integer, intent(in) :: cell
        real(c_double) :: heights(rods)
        integer :: rod
        heights = [(sin(real(cell * rod, c_double)), rod = 1, rods)]
    end function
end program
