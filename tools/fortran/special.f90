! Parts of the module that are written by hand: interfaces of C, then procedures.
function c_fflush(file) bind(C, name="fflush") result(r)
  import
  type(c_ptr), value :: file
  integer(c_int) :: r
end function
function c_fdopen(descriptor, mode) bind(C, name="fdopen") result(r)
  import
  integer(c_int), value :: descriptor
  character(kind=c_char), intent(in) :: mode(*)
  type(c_ptr) :: r
end function
function c_strlen(text) bind(C, name="strlen") result(r)
  import
  type(c_ptr), value :: text
  integer(c_size_t) :: r
end function
function c_tensor_shape(tensor) bind(C, name="weft_tensor_shape") result(r)
  import
  type(c_ptr), value :: tensor
  type(c_ptr) :: r
end function
function c_tensor_placements(tensor) bind(C, name="weft_tensor_placements") result(r)
  import
  type(c_ptr), value :: tensor
  type(c_ptr) :: r
end function
function c_tensor_describe(tensor, text, size) bind(C, name="weft_tensor_describe") result(r)
  import
  type(c_ptr), value :: tensor, text
  integer(c_size_t), value :: size
  type(c_ptr) :: r
end function
function c_placements_format(placements, n, text, size) bind(C, name="weft_placements_format") result(r)
  import
  type(weft_placement), intent(in) :: placements(*)
  integer(c_int), value :: n
  type(c_ptr), value :: text
  integer(c_size_t), value :: size
  integer(c_int) :: r
end function
function c_mesh_ranks(mesh, ranks) bind(C, name="weft_mesh_ranks") result(r)
  import
  type(c_ptr), value :: mesh
  integer(c_int), intent(inout) :: ranks(*)
  integer(c_int) :: r
end function
function c_mesh_names(mesh, names) bind(C, name="weft_mesh_names") result(r)
  import
  type(c_ptr), value :: mesh
  type(c_ptr), intent(inout) :: names(*)
  integer(c_int) :: r
end function
function c_module_parameters(module, max, names, found) bind(C, name="weft_module_parameters") result(r)
  import
  type(c_ptr), value :: module
  integer(c_int), value :: max
  type(c_ptr), intent(inout) :: names(*)
  type(weft_tensor), intent(inout) :: found(*)
  integer(c_int) :: r
end function
function c_module_buffers(module, max, names, found) bind(C, name="weft_module_buffers") result(r)
  import
  type(c_ptr), value :: module
  integer(c_int), value :: max
  type(c_ptr), intent(inout) :: names(*)
  type(weft_tensor), intent(inout) :: found(*)
  integer(c_int) :: r
end function
function c_module_modules(module, max, names, found) bind(C, name="weft_module_modules") result(r)
  import
  type(c_ptr), value :: module
  integer(c_int), value :: max
  type(c_ptr), intent(inout) :: names(*)
  type(weft_module), intent(inout) :: found(*)
  integer(c_int) :: r
end function
function c_random_states(max, names) bind(C, name="weft_random_states") result(r)
  import
  integer(c_int), value :: max
  type(c_ptr), intent(inout) :: names(*)
  integer(c_int) :: r
end function
function c_checkpoint_key(file, index, key, value) bind(C, name="weft_checkpoint_key") result(r)
  import
  type(c_ptr), value :: file
  integer(c_int), value :: index
  type(c_ptr), intent(inout) :: key, value
  integer(c_int) :: r
end function
! ---- MPI
function c_init_mpi(communicator, config) bind(C, name="weft_init_mpi_fortran") result(r)
  import
  integer(c_int), value :: communicator
  type(weft_config), intent(in), optional :: config
  integer(c_int) :: r
end function
! ---- end of MPI
! ==== procedures
! A stream of C's on Fortran's standard output: the variable stdout of C would become one of Fortran's own.
function standard_output() result(r)
  type(c_ptr) :: r
  if (.not. c_associated(c_stdout)) c_stdout = c_fdopen(1_c_int, c_text('w'))
  r = c_stdout
end function
! A number of any kind. Another type makes C say what it expects.
function to_scalar(x) result(r)
  class(*), intent(in) :: x
  type(weft_scalar) :: r
  r%dtype = WEFT_F64
  select type (x)
  type is (real(c_double))
    r%real = x
  type is (real(c_float))
    r%real = real(x, c_double)
  type is (complex(c_double_complex))
    r%dtype = WEFT_C128
    r%real = real(x, c_double)
    r%imag = aimag(x)
  type is (complex(c_float_complex))
    r%dtype = WEFT_C128
    r%real = real(x, c_double)
    r%imag = real(aimag(x), c_double)
  type is (integer(c_int))
    r%dtype = WEFT_I64
    r%whole = int(x, c_int64_t)
  type is (integer(c_int64_t))
    r%dtype = WEFT_I64
    r%whole = x
  class default
    r%dtype = -1
  end select
end function
! A set of one dimension, as WEFT_DIM(dim) in C; ior() joins sets.
elemental function weft_dim(dim) result(r)
  integer, intent(in) :: dim
  integer(c_int) :: r
  r = ior(WEFT_ALL_DIMS, ishft(1_c_int, merge(dim + WEFT_MAX_DIMS, 29, dim >= -WEFT_MAX_DIMS .and. dim < WEFT_MAX_DIMS)))
end function
! A text of C; trailing blanks are Fortran's.
function c_text(text) result(r)
  character(*), intent(in) :: text
  character(kind=c_char), allocatable :: r(:)
  integer :: i
  allocate(r(len_trim(text) + 1))
  do i = 1, size(r) - 1
    r(i) = text(i:i)
  end do
  r(size(r)) = c_null_char
end function
! The texts of C, and pointers to them: NULL for a blank one.
subroutine c_texts(texts, memory, pointers)
  character(*), intent(in) :: texts(:)
  character(kind=c_char), intent(out), target :: memory(:, :)
  type(c_ptr), intent(out) :: pointers(:)
  integer :: i, length
  memory = c_null_char
  do i = 1, size(texts)
    length = len_trim(texts(i))
    pointers(i) = c_null_ptr
    if (length > 0) then
      memory(:length + 1, i) = c_text(texts(i))
      pointers(i) = c_loc(memory(1, i))
    end if
  end do
end subroutine
! A text up to the end that C gives it.
function f_text(text) result(r)
  character(kind=c_char), intent(in) :: text(:)
  character(:), allocatable :: r
  integer :: i, length
  length = findloc(text, c_null_char, 1)
  length = merge(size(text), length - 1, length == 0)
  allocate(character(length) :: r)
  do i = 1, length
    r(i:i) = text(i)
  end do
end function
! A text of C: "" for NULL.
function f_pointer_text(pointer) result(r)
  type(c_ptr), intent(in) :: pointer
  character(:), allocatable :: r
  character(kind=c_char), pointer :: text(:)
  if (.not. c_associated(pointer)) then
    r = ""
    return
  end if
  call c_f_pointer(pointer, text, [c_strlen(pointer)])
  r = f_text(text)
end function
subroutine fill_placements(placements, all)
  type(weft_placement), intent(in) :: placements(:)
  type(weft_placement), intent(out) :: all(:)
  integer :: n
  n = min(size(placements), size(all))
  all%kind = -1 ! no placement: refused where the mesh has more dimensions than were given
  all(:n) = placements(:n)
end subroutine
function fits_text(array, expected) result(r)
  character(*), intent(in), optional :: array(:)
  integer, intent(in) :: expected
  logical :: r
  r = .true.
  if (present(array)) r = size(array) == expected
end function
function fits_tensor(array, expected) result(r)
  type(weft_tensor), intent(in), optional :: array(:)
  integer, intent(in) :: expected
  logical :: r
  r = .true.
  if (present(array)) r = size(array) == expected
end function
! All sizes, in C's order.
function weft_tensor_shape(tensor) result(r)
  type(weft_tensor), intent(in) :: tensor
  integer(c_int64_t), allocatable :: r(:)
  integer(c_int64_t), pointer :: sizes(:)
  type(c_ptr) :: found
  found = c_tensor_shape(tensor%handle)
  allocate(r(0))
  if (.not. c_associated(found)) return
  call c_f_pointer(found, sizes, [weft_tensor_ndim(tensor)])
  r = sizes
end function
function weft_tensor_placements(tensor) result(r)
  type(weft_tensor), intent(in) :: tensor
  type(weft_placement), allocatable :: r(:)
  type(weft_placement), pointer :: placements(:)
  type(c_ptr) :: found
  found = c_tensor_placements(tensor%handle)
  allocate(r(0))
  if (.not. c_associated(found)) return
  call c_f_pointer(found, placements, [weft_mesh_ndim(weft_tensor_mesh(tensor))])
  r = placements
end function
function weft_tensor_describe(tensor) result(r)
  type(weft_tensor), intent(in) :: tensor
  character(:), allocatable :: r
  character(kind=c_char), target :: text(1024)
  type(c_ptr) :: told
  told = c_tensor_describe(tensor%handle, c_loc(text), size(text, kind=c_size_t))
  r = f_pointer_text(told)
end function
subroutine weft_placements_format(placements, text, status)
  type(weft_placement), intent(in) :: placements(:)
  character(:), allocatable, intent(out) :: text
  integer(c_int), intent(out), optional :: status
  character(kind=c_char), target :: memory(65536)
  integer(c_int) :: code
  memory = c_null_char
  code = c_placements_format(placements, size(placements), c_loc(memory), size(memory, kind=c_size_t))
  text = f_text(memory)
  if (present(status)) status = code
end subroutine
subroutine weft_mesh_ranks(mesh, ranks, status)
  type(weft_mesh), intent(in) :: mesh
  integer(c_int), allocatable, intent(out) :: ranks(:)
  integer(c_int), intent(out), optional :: status
  integer(c_int) :: code
  allocate(ranks(weft_mesh_num_ranks(mesh)))
  code = c_mesh_ranks(mesh%handle, ranks)
  if (present(status)) status = code
end subroutine
! Texts of one length: that of the longest.
subroutine f_texts(pointers, texts)
  type(c_ptr), intent(in) :: pointers(:)
  character(:), allocatable, intent(out) :: texts(:)
  integer :: i, longest
  longest = 0
  do i = 1, size(pointers)
    longest = max(longest, len(f_pointer_text(pointers(i))))
  end do
  allocate(character(longest) :: texts(size(pointers)))
  do i = 1, size(pointers)
    texts(i) = f_pointer_text(pointers(i))
  end do
end subroutine
subroutine weft_mesh_names(mesh, names, status)
  type(weft_mesh), intent(in) :: mesh
  character(:), allocatable, intent(out) :: names(:)
  integer(c_int), intent(out), optional :: status
  type(c_ptr), allocatable :: pointers(:)
  integer(c_int) :: code
  allocate(pointers(weft_mesh_ndim(mesh)))
  pointers = c_null_ptr
  code = c_mesh_names(mesh%handle, pointers)
  call f_texts(pointers, names)
  if (present(status)) status = code
end subroutine
! All names, and their tensors: as many as the module has.
subroutine weft_module_parameters(module, names, parameters)
  type(weft_module), intent(in) :: module
  character(:), allocatable, intent(out) :: names(:)
  type(weft_tensor), allocatable, intent(out) :: parameters(:)
  type(c_ptr), allocatable :: pointers(:)
  integer :: n
  type(c_ptr) :: none(0)
  type(weft_tensor) :: nothing(0)
  n = max(0, c_module_parameters(module%handle, 0, none, nothing))
  allocate(pointers(n), parameters(n))
  pointers = c_null_ptr
  n = c_module_parameters(module%handle, n, pointers, parameters)
  call f_texts(pointers, names)
end subroutine
subroutine weft_module_buffers(module, names, buffers)
  type(weft_module), intent(in) :: module
  character(:), allocatable, intent(out) :: names(:)
  type(weft_tensor), allocatable, intent(out) :: buffers(:)
  type(c_ptr), allocatable :: pointers(:)
  integer :: n
  type(c_ptr) :: none(0)
  type(weft_tensor) :: nothing(0)
  n = max(0, c_module_buffers(module%handle, 0, none, nothing))
  allocate(pointers(n), buffers(n))
  pointers = c_null_ptr
  n = c_module_buffers(module%handle, n, pointers, buffers)
  call f_texts(pointers, names)
end subroutine
subroutine weft_module_modules(module, names, modules)
  type(weft_module), intent(in) :: module
  character(:), allocatable, intent(out) :: names(:)
  type(weft_module), allocatable, intent(out) :: modules(:)
  type(c_ptr), allocatable :: pointers(:)
  integer :: n
  type(c_ptr) :: none(0)
  type(weft_module) :: nothing(0)
  n = max(0, c_module_modules(module%handle, 0, none, nothing))
  allocate(pointers(n), modules(n))
  pointers = c_null_ptr
  n = c_module_modules(module%handle, n, pointers, modules)
  call f_texts(pointers, names)
end subroutine
subroutine weft_random_states(names)
  character(:), allocatable, intent(out) :: names(:)
  type(c_ptr), allocatable :: pointers(:)
  type(c_ptr) :: none(0)
  integer :: n
  n = max(0, c_random_states(0, none))
  allocate(pointers(n))
  pointers = c_null_ptr
  n = c_random_states(n, pointers)
  call f_texts(pointers, names)
end subroutine
subroutine weft_checkpoint_key(file, index, key, value, status)
  type(weft_checkpoint_file), intent(in) :: file
  integer(c_int), intent(in) :: index
  character(:), allocatable, intent(out) :: key, value
  integer(c_int), intent(out), optional :: status
  type(c_ptr) :: key_p, value_p
  integer(c_int) :: code
  key_p = c_null_ptr
  value_p = c_null_ptr
  code = c_checkpoint_key(file%handle, index, key_p, value_p)
  key = f_pointer_text(key_p)
  value = f_pointer_text(value_p)
  if (present(status)) status = code
end subroutine
! ---- MPI
! The integer of a communicator: MPI_COMM_WORLD of mpi, or comm%mpi_val of mpi_f08.
subroutine weft_init_mpi(communicator, config, status)
  integer, intent(in) :: communicator
  type(weft_config), intent(in), optional :: config
  integer(c_int), intent(out), optional :: status
  integer(c_int) :: code
  code = c_init_mpi(int(communicator, c_int), config)
  if (present(status)) status = code
end subroutine
! ---- end of MPI
! What kernels read of a part, as in <weft/kernel.h>. Rows count from 0.
function weft_view_count(view) result(r)
  type(weft_view), intent(in) :: view
  integer(c_int64_t) :: r
  r = product(view%extent(1:view%ndim))
end function
function weft_view_rows(view) result(r)
  type(weft_view), intent(in) :: view
  integer(c_int64_t) :: r
  r = 1
  if (view%ndim > 0) r = merge(0_c_int64_t, view%extent(1), view%row_elements == 0)
end function
! The address of a row; `together`: how many rows lie there one after the other.
function weft_view_row(view, row, together) result(r)
  type(weft_view), intent(in) :: view
  integer(c_int64_t), intent(in) :: row
  integer(c_int64_t), intent(out), optional :: together
  type(c_ptr) :: r
  type(c_ptr), pointer :: panels(:)
  integer(c_int64_t) :: first, place, panel, begin
  if (view%ndim == 0) then
    first = 0; place = 0; panel = 0; begin = 0
    if (present(together)) together = 1
  else
    first = view%offset(1) + view%row_shift
    place = first + row
    panel = place / view%panel_rows - first / view%panel_rows
    begin = merge(first, place - mod(place, view%panel_rows), panel == 0)
    if (present(together)) then
      together = min(place - mod(place, view%panel_rows) + view%panel_rows, first + view%extent(1)) - place
    end if
  end if
  call c_f_pointer(view%panels, panels, [panel + 1])
  r = transfer(transfer(panels(panel + 1), 0_c_intptr_t) + (place - begin) * view%row_elements * c_weft_dtype_size(view%dtype), &
      c_null_ptr)
end function
