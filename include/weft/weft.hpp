/** \file
 * weft for C++17, built only on the C functions: owners that release what they own, operators, and errors as
 * exceptions.
 *
 *     weft_config config = WEFT_CONFIG_DEFAULT;
 *     config.ranks = 4;
 *     weft::session session(config);
 *     weft::mesh mesh({ 2, 2 }, { "dp", "tp" });
 *     weft::use_mesh current(mesh);
 *     weft::tensor x = weft::randn(WEFT_F32, { 512, 512 }, "S0,R");
 *     weft::tensor y = weft::sum(weft::matmul(x, x) * 2.0 - 1.0);
 *     double value = y.item();
 *
 * A weft::tensor owns one reference, whatever scopes are open. A copy is another reference to the same tensor, as in
 * PyTorch. To call C functions use tensor::get(); to get a weft::tensor from C use weft::own() or weft::call().
 *
 * Errors: a call that fails throws weft::error, which has the status and the message, and clears the error that C
 * keeps. If you define WEFT_NO_EXCEPTIONS before this header, or exceptions are off (-fno-exceptions), nothing
 * throws: tensors are empty (operator bool), functions return their status, and the first error is kept, as in C:
 * weft_last_status(). You may link both kinds of files into one program.
 *
 * Your functions that the library calls (functions of graphs and modules, hooks, functions of weft_recompute()) must
 * not let an exception pass through the library. weft::guard() keeps the exception and returns a status, and
 * weft::check() of what the library returns throws it again; weft::graph does both.
 *
 * You can pass shapes and dimensions as a list, a std::vector, a pointer and a number, or a std::span (C++20). */
#ifndef WEFT_WEFT_HPP
#define WEFT_WEFT_HPP

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#if __cplusplus >= 202002L && defined(__has_include)
#if __has_include(<span>)
#include <span>
#endif
#endif

#include <weft/weft.h>

#if !defined(WEFT_NO_EXCEPTIONS) && !defined(__cpp_exceptions)
#define WEFT_NO_EXCEPTIONS
#endif

namespace weft {

namespace detail {
/** Number of sessions that have ended. Owners that outlive their session release nothing, because what they owned
 * ended with it. */
inline unsigned sessions_ended = 0;
} // namespace detail

#ifdef WEFT_NO_EXCEPTIONS
inline namespace without_exceptions {
#else
inline namespace with_exceptions {
#endif

/** The exception that failed calls throw. */
class error : public std::runtime_error {
public:
    error(weft_status status, const std::string &message) : std::runtime_error(message), status_(status) {}
    weft_status status() const noexcept { return status_; }

private:
    weft_status status_;
};

#ifndef WEFT_NO_EXCEPTIONS
namespace guarding {
/** The exception that guard() has caught, while it passes through the library. */
inline std::exception_ptr &guarded()
{
    static thread_local std::exception_ptr kept;
    return kept;
}

/** Keeps the exception that is being handled. Returns the status that represents it. */
inline weft_status keep_exception() noexcept
{
    guarded() = std::current_exception();
    try {
        throw;
    } catch (const error &problem) {
        return problem.status() == WEFT_OK ? WEFT_ERR_INVALID : problem.status();
    } catch (const std::bad_alloc &) {
        return WEFT_ERR_NOMEM;
    } catch (...) {
        return WEFT_ERR_INVALID;
    }
}
} // namespace guarding
#endif

/** Throws if the status is not WEFT_OK: the exception that guard() has kept, otherwise weft::error. If nothing throws,
 * it returns the status. Use it for C functions too: weft::check(weft_wait()). */
inline weft_status check(weft_status status)
{
#ifndef WEFT_NO_EXCEPTIONS
    if (status != WEFT_OK && guarding::guarded() != nullptr) {
        const std::exception_ptr kept = std::exchange(guarding::guarded(), nullptr);
        weft_clear_error();
        std::rethrow_exception(kept);
    }
    if (status != WEFT_OK) {
        const error problem(status, weft_last_error());
        weft_clear_error();
        throw problem;
    }
#endif
    return status;
}

/** The same for a pointer from C; NULL is an error. */
template <typename T> T *check_pointer(T *pointer)
{
#ifndef WEFT_NO_EXCEPTIONS
    if (pointer == nullptr) {
        const weft_status status = weft_last_status();
        check(status == WEFT_OK ? WEFT_ERR_INVALID : status);
    }
#endif
    return pointer;
}

/** Calls a function that returns a weft_status, and returns the status. Put it around the body of each function that
 * the library calls, because an exception that leaves such a function would leave the library in the middle of a
 * call. guard() turns the exception into a status, and the next weft::check() of an error throws it again, outside
 * the library.
 *
 *     weft_status hook(weft_tensor *leaf, weft_tensor *gradient, void *)
 *     {
 *         return weft::guard([&] { return check_finite(weft::own(gradient)); });
 *     }
 *     ...
 *     weft::check(weft_backward(loss.get(), nullptr));
 *
 * Do not use it in kernels and local functions, which run on other threads; report errors there by
 * weft_kernel_fail(). */
template <typename Function> weft_status guard(Function &&function) noexcept
{
#ifdef WEFT_NO_EXCEPTIONS
    return std::forward<Function>(function)();
#else
    guarding::guarded() = nullptr; /* from a call whose status nobody has checked */
    try {
        return std::forward<Function>(function)();
    } catch (...) {
        return guarding::keep_exception();
    }
#endif
}

/** A view of consecutive values. Nothing is copied; it is valid during the call. */
template <typename T> class list {
public:
    list(std::initializer_list<T> values) noexcept : size_(values.size()) { data_ = values.begin(); }
    list(const std::vector<T> &values) noexcept : data_(values.data()), size_(values.size()) {}
    list(const T *data, std::size_t size) noexcept : data_(data), size_(size) {}
#ifdef __cpp_lib_span
    list(std::span<const T> values) noexcept : data_(values.data()), size_(values.size()) {}
#endif
    const T *data() const noexcept { return data_; }
    int size() const noexcept { return size_ > 1u << 20 ? 1 << 20 : static_cast<int>(size_); } /* calls refuse more */

private:
    const T *data_ = nullptr;
    std::size_t size_;
};
using shape = list<std::int64_t>;
using dims = list<int>;

/** weft_init() in the constructor and weft_finalize() in the destructor. */
class session {
public:
    session() : session(nullptr) {}
    explicit session(const weft_config &config) : session(&config) {}
    session(const session &) = delete;
    session &operator=(const session &) = delete;
    ~session() { finalize(); }
    bool is_running() const noexcept { return status_ == WEFT_OK; }
    /** Status of weft_init(); after finalize() it is WEFT_ERR_STATE. */
    weft_status status() const noexcept { return status_; }
    /** Ends the session before the destructor does, and returns the status, which the destructor would drop. */
    weft_status finalize() noexcept
    {
        if (status_ != WEFT_OK) {
            return status_;
        }
        status_ = WEFT_ERR_STATE;
        detail::sessions_ended++;
        return weft_finalize();
    }
    /** Takes over a session that weft_init_mpi() or another function has started: weft::session(status). */
    explicit session(weft_status started) : status_(check(started)) {}

private:
    explicit session(const weft_config *config) : status_(check(weft_init(config))) {}
    weft_status status_;
};

/** A C scope: what it owns is released when it ends. A weft::tensor keeps its own reference. */
class scope {
public:
    scope() : status_(weft_scope_begin())
    {
        if (status_ == WEFT_ERR_NOMEM) {
            weft_scope_end(); /* it must be closed anyway */
        }
        check(status_);
    }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;
    ~scope()
    {
        if (status_ == WEFT_OK && session_ == detail::sessions_ended) {
            weft_scope_end();
        }
    }
    bool is_open() const noexcept { return status_ == WEFT_OK; }

private:
    weft_status status_;
    unsigned session_ = detail::sessions_ended;
};

/** During its lifetime, calls are not recorded for gradients. */
class no_grad {
public:
    no_grad() noexcept { weft_no_grad_begin(); }
    no_grad(const no_grad &) = delete;
    no_grad &operator=(const no_grad &) = delete;
    ~no_grad()
    {
        if (session_ == detail::sessions_ended) {
            weft_no_grad_end();
        }
    }

private:
    unsigned session_ = detail::sessions_ended;
};

/** A mesh. The library owns it, so copies are free. */
class mesh {
public:
    mesh() noexcept = default; /* none: the current one */
    mesh(weft_mesh *handle) noexcept : handle_(handle) {}
    explicit mesh(shape sizes) : handle_(check_pointer(weft_mesh_create(sizes.size(), sizes.data(), nullptr))) {}
    /** There must be as many names as sizes (WEFT_ERR_INVALID). */
    mesh(shape sizes, list<const char *> names)
        : handle_(check_pointer(weft_mesh_create(names.size() == sizes.size() ? sizes.size() : -1, sizes.data(), names.data())))
    {
    }
    weft_mesh *get() const noexcept { return handle_; }
    explicit operator bool() const noexcept { return handle_ != nullptr; }
    int ndim() const { return weft_mesh_ndim(handle_); }
    std::int64_t size(int dim) const { return weft_mesh_size(handle_, dim); }
    std::int64_t num_ranks() const { return weft_mesh_num_ranks(handle_); }

private:
    weft_mesh *handle_ = nullptr;
};

/** Makes a mesh the current one during its lifetime. */
class use_mesh {
public:
    explicit use_mesh(mesh which) : status_(check(weft_mesh_push(which.get()))) {}
    use_mesh(const use_mesh &) = delete;
    use_mesh &operator=(const use_mesh &) = delete;
    ~use_mesh()
    {
        if (status_ == WEFT_OK && session_ == detail::sessions_ended) {
            weft_mesh_pop();
        }
    }

private:
    weft_status status_;
    unsigned session_ = detail::sessions_ended;
};

/** Placements, given as text ("S0,R") or one by one ({ weft_shard(0), weft_replicate() }). Without any: Replicate
 * everywhere. If the text cannot be parsed, or the number differs from the mesh's dimensions, the call fails. */
class placements {
public:
    placements() noexcept = default;
    placements(const char *text)
    {
        int n = 1;
        bool lists = false; /* between braces */
        for (const char *c = text; c != nullptr && *c != '\0'; c++) {
            n += *c == ',' && !lists;
            lists = *c == '{' || (lists && *c != '}');
        }
        fill(check(weft_placements_parse(text, n, all_)) == WEFT_OK ? n : 0);
    }
    placements(const std::string &text) : placements(text.c_str()) {}
    placements(std::initializer_list<weft_placement> given) : placements(given.begin(), given.size()) {}
    placements(const std::vector<weft_placement> &given) : placements(given.data(), given.size()) {}
    placements(const weft_placement *given, std::size_t n)
    {
        const int count = n > WEFT_MAX_DIMS ? 0 : static_cast<int>(n);
        for (int i = 0; i < count; i++) {
            all_[i] = given[i];
        }
        fill(count);
    }
    const weft_placement *get() const noexcept { return is_given_ ? all_ : nullptr; }

private:
    /* The remaining entries are not valid placements. */
    void fill(int count) noexcept
    {
        is_given_ = true;
        for (int i = count; i < WEFT_MAX_DIMS; i++) {
            all_[i].kind = static_cast<weft_placement_kind>(WEFT_PARTIAL + 1);
        }
    }
    weft_placement all_[WEFT_MAX_DIMS] = {};
    bool is_given_ = false;
};

/** A reference to a tensor. */
class tensor {
public:
    tensor() noexcept = default;
    tensor(const tensor &other) noexcept : handle_(other.handle_), session_(other.session_)
    {
        if (is_live()) {
            weft_tensor_retain(handle_);
        }
    }
    tensor(tensor &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)), session_(other.session_) {}
    tensor &operator=(tensor other) noexcept
    {
        std::swap(handle_, other.handle_);
        std::swap(session_, other.session_);
        return *this;
    }
    ~tensor()
    {
        if (is_live()) {
            weft_tensor_release(handle_);
        }
    }
    /** Takes over a reference that the caller owns. */
    static tensor take(weft_tensor *handle) noexcept
    {
        tensor taken;
        taken.handle_ = handle;
        return taken;
    }
    weft_tensor *get() const noexcept { return handle_; }
    /** Hands the reference over to the caller. */
    weft_tensor *release() noexcept { return std::exchange(handle_, nullptr); }
    explicit operator bool() const noexcept { return handle_ != nullptr; }

    int ndim() const { return weft_tensor_ndim(handle_); }
    std::int64_t size(int dim) const { return weft_tensor_size(handle_, dim); }
    std::vector<std::int64_t> sizes() const
    {
        const std::int64_t *all = weft_tensor_shape(handle_);
        return all == nullptr ? std::vector<std::int64_t>() : std::vector<std::int64_t>(all, all + ndim());
    }
    std::int64_t num_elements() const { return weft_tensor_num_elements(handle_); }
    weft_dtype dtype() const { return weft_tensor_dtype(handle_); }
    weft::mesh mesh() const { return weft::mesh(weft_tensor_mesh(handle_)); }
    std::string describe() const
    {
        char text[512];
        return weft_tensor_describe(handle_, text, sizeof(text));
    }
    /** Returns the value of the only element. BLOCKS. If nothing throws, it is NaN on error. */
    double item() const
    {
        double value = std::nan("");
        check(weft_tensor_item(handle_, &value));
        return value;
    }
    /** Copies the values, row-major, to the caller's memory of `bytes` bytes. BLOCKS. */
    weft_status to_host(void *memory, std::size_t bytes) const { return check(weft_to_host(handle_, memory, bytes)); }
    /** The same on one process; on the others the memory may be NULL. BLOCKS. */
    weft_status to_host_on(int process, void *memory, std::size_t bytes) const
    {
        return check(weft_to_host_on(handle_, process, memory, bytes));
    }
    /** Returns the values, row-major, converted to T. BLOCKS. If nothing throws, the vector is empty on error. */
    template <typename T> std::vector<T> values() const;

    tensor &operator+=(const tensor &other) { return changed(weft_add_inplace(handle_, other.handle_, 1)); }
    tensor &operator-=(const tensor &other) { return changed(weft_add_inplace(handle_, other.handle_, -1)); }
    tensor &operator*=(const tensor &other) { return changed(weft_mul_inplace(handle_, other.handle_)); }
    tensor &operator/=(const tensor &other) { return changed(weft_div_inplace(handle_, other.handle_)); }
    tensor &operator*=(weft_scalar factor) { return changed(weft_scale_inplace(handle_, factor)); }
    tensor &fill(weft_scalar value) { return changed(weft_fill_inplace(handle_, value)); }

    weft_status requires_grad(bool on) { return check(weft_set_requires_grad(handle_, on)); }
    /** Returns the accumulated gradient; an empty tensor if there is none. */
    tensor grad() const
    {
        weft_tensor *found = weft_grad(handle_);
        if (found != nullptr) {
            weft_tensor_retain(found);
        }
        return take(found);
    }
    weft_status backward() const { return check(weft_backward(handle_, nullptr)); }

private:
    bool is_live() const noexcept { return handle_ != nullptr && session_ == detail::sessions_ended; }
    tensor &changed(weft_tensor *result)
    {
        check_pointer(result);
        return *this;
    }
    weft_tensor *handle_ = nullptr;
    unsigned session_ = detail::sessions_ended;
};

/** Makes another reference to a C tensor. */
inline tensor own(weft_tensor *handle)
{
    if (handle != nullptr && weft_tensor_retain(handle) != WEFT_OK) {
        handle = nullptr;
    }
    return tensor::take(check_pointer(handle));
}

/** Returns the result of any C function that makes one tensor: weft::call([&] { return weft_roll(a.get(), 1, 0); }).
 * It calls the function in a scope of its own, so that exactly one reference is left. */
template <typename Function> tensor call(Function function)
{
    weft_tensor *made = nullptr;
    {
        const scope around;
        if (around.is_open() && (made = function()) != nullptr) {
            weft_tensor_retain(made);
        }
    }
    return tensor::take(check_pointer(made));
}

/** \{ Types of elements in memory. C++17 has no type for 16-bit elements. */
template <typename T> struct dtype_of;
template <> struct dtype_of<double> { static constexpr weft_dtype value = WEFT_F64; };
template <> struct dtype_of<float> { static constexpr weft_dtype value = WEFT_F32; };
template <> struct dtype_of<std::complex<double>> { static constexpr weft_dtype value = WEFT_C128; };
template <> struct dtype_of<std::complex<float>> { static constexpr weft_dtype value = WEFT_C64; };
template <> struct dtype_of<std::int64_t> { static constexpr weft_dtype value = WEFT_I64; };
template <> struct dtype_of<std::int32_t> { static constexpr weft_dtype value = WEFT_I32; };
template <> struct dtype_of<std::uint8_t> { static constexpr weft_dtype value = WEFT_U8; };
template <> struct dtype_of<std::int8_t> { static constexpr weft_dtype value = WEFT_I8; };
template <> struct dtype_of<std::int16_t> { static constexpr weft_dtype value = WEFT_I16; };
template <> struct dtype_of<std::uint16_t> { static constexpr weft_dtype value = WEFT_U16; };
template <> struct dtype_of<std::uint32_t> { static constexpr weft_dtype value = WEFT_U32; };
template <> struct dtype_of<std::uint64_t> { static constexpr weft_dtype value = WEFT_U64; };
/** \} */

namespace maker {
/* The dtype argument as the C functions take it. */
inline weft_dtype given(weft_dtype t, bool requires_grad)
{
    return static_cast<weft_dtype>(static_cast<unsigned>(t) | (requires_grad ? WEFT_WITH_GRAD : 0u));
}
} // namespace maker

/** Functions that create tensors, as in C. With requires_grad they create leaves (WEFT_WITH_GRAD). \{ */
inline tensor empty(weft_dtype t, shape s, const placements &p = {}, mesh m = {}, bool requires_grad = false)
{
    return call([&] { return weft_empty(maker::given(t, requires_grad), s.size(), s.data(), m.get(), p.get()); });
}
inline tensor zeros(weft_dtype t, shape s, const placements &p = {}, mesh m = {}, bool requires_grad = false)
{
    return call([&] { return weft_zeros(maker::given(t, requires_grad), s.size(), s.data(), m.get(), p.get()); });
}
inline tensor ones(weft_dtype t, shape s, const placements &p = {}, mesh m = {}, bool requires_grad = false)
{
    return call([&] { return weft_ones(maker::given(t, requires_grad), s.size(), s.data(), m.get(), p.get()); });
}
inline tensor full(weft_dtype t, shape s, weft_scalar value, const placements &p = {}, mesh m = {}, bool requires_grad = false)
{
    return call([&] { return weft_full(maker::given(t, requires_grad), value, s.size(), s.data(), m.get(), p.get()); });
}
inline tensor rand(weft_dtype t, shape s, const placements &p = {}, mesh m = {}, bool requires_grad = false)
{
    return call([&] { return weft_rand(maker::given(t, requires_grad), s.size(), s.data(), m.get(), p.get()); });
}
inline tensor randn(weft_dtype t, shape s, const placements &p = {}, mesh m = {}, bool requires_grad = false)
{
    return call([&] { return weft_randn(maker::given(t, requires_grad), s.size(), s.data(), m.get(), p.get()); });
}
inline tensor arange(weft_dtype t, weft_scalar start, weft_scalar stop, weft_scalar step = 1, const placements &p = {}, mesh m = {},
                     bool requires_grad = false)
{
    return call([&] { return weft_arange(maker::given(t, requires_grad), start, stop, step, m.get(), p.get()); });
}
/** Distributes the values of a whole array, row-major. BLOCKS. WEFT_ERR_INVALID if their number is not that of the
 * shape. */
template <typename T>
tensor distribute(const std::vector<T> &values, shape s, const placements &p = {}, mesh m = {}, bool requires_grad = false)
{
    std::size_t expected = 1;
    for (int d = 0; d < s.size(); d++) {
        expected *= static_cast<std::size_t>(s.data()[d]);
    }
    const int ndim = expected == values.size() ? s.size() : -1;
    const weft_dtype t = maker::given(dtype_of<T>::value, requires_grad);
    return call([&] { return weft_distribute(t, ndim, s.data(), values.data(), m.get(), p.get()); });
}
/** \} */

inline tensor redistribute(const tensor &a, const placements &p = {}, mesh m = {})
{
    return call([&] { return weft_redistribute(a.get(), m.get(), p.get()); });
}
inline tensor to_type(const tensor &a, weft_dtype t)
{
    return call([&] { return weft_to_type(a.get(), t); });
}

namespace operand {
/** Turns a number into an operand of an operation with a tensor: a tensor without dimensions, which does not change
 * the type of floating ones. */
inline tensor number(const tensor &a, weft_scalar value)
{
    const weft_dtype type = a.dtype();
    const bool floating = type <= WEFT_F16 || type == WEFT_C64 || type == WEFT_C128;
    weft_dtype own = value.dtype;
    if (own == WEFT_I64 || own == WEFT_U64) {
        own = floating ? WEFT_F64 : own == WEFT_U64 ? type : own; /* full() refuses what an integer type has not */
    } else if (own == WEFT_F64 && !floating) {
        const bool whole = std::floor(value.real) == value.real && std::fabs(value.real) < 9007199254740992.0;
        own = whole ? WEFT_I64 : WEFT_F32;
    }
    return full(own, shape(nullptr, 0), value, {}, a.mesh());
}
} // namespace operand

/** \{ Operators. Shapes broadcast and types promote as in C; == and the like compare elements. */
#define WEFT_HPP_BINARY(NAME, FUNCTION)                                                                      \
    inline tensor NAME(const tensor &a, const tensor &b)                                                     \
    {                                                                                                        \
        return call([&] { return FUNCTION(a.get(), b.get()); });                                             \
    }
#define WEFT_HPP_OPERATOR(SIGN, FUNCTION)                                                                    \
    WEFT_HPP_BINARY(operator SIGN, FUNCTION)                                                                 \
    inline tensor operator SIGN(const tensor &a, weft_scalar b) { return a SIGN operand::number(a, b); }           \
    inline tensor operator SIGN(weft_scalar a, const tensor &b) { return operand::number(b, a) SIGN b; }
WEFT_HPP_OPERATOR(+, weft_add)
WEFT_HPP_OPERATOR(-, weft_sub)
WEFT_HPP_OPERATOR(*, weft_mul)
WEFT_HPP_OPERATOR(/, weft_div)
WEFT_HPP_OPERATOR(==, weft_eq)
WEFT_HPP_OPERATOR(!=, weft_ne)
WEFT_HPP_OPERATOR(<, weft_lt)
WEFT_HPP_OPERATOR(<=, weft_le)
WEFT_HPP_OPERATOR(>, weft_gt)
WEFT_HPP_OPERATOR(>=, weft_ge)
WEFT_HPP_BINARY(matmul, weft_matmul)
WEFT_HPP_BINARY(maximum, weft_maximum)
WEFT_HPP_BINARY(minimum, weft_minimum)
WEFT_HPP_BINARY(pow, weft_pow)
WEFT_HPP_BINARY(logical_and, weft_logical_and)
WEFT_HPP_BINARY(logical_or, weft_logical_or)
#undef WEFT_HPP_OPERATOR
#undef WEFT_HPP_BINARY
#define WEFT_HPP_UNARY(NAME, FUNCTION)                                                                       \
    inline tensor NAME(const tensor &a)                                                                      \
    {                                                                                                        \
        return call([&] { return FUNCTION(a.get()); });                                                      \
    }
WEFT_HPP_UNARY(operator-, weft_neg)
WEFT_HPP_UNARY(logical_not, weft_logical_not)
WEFT_HPP_UNARY(abs, weft_abs)
WEFT_HPP_UNARY(sqrt, weft_sqrt)
WEFT_HPP_UNARY(exp, weft_exp)
WEFT_HPP_UNARY(log, weft_log)
WEFT_HPP_UNARY(sin, weft_sin)
WEFT_HPP_UNARY(cos, weft_cos)
WEFT_HPP_UNARY(tanh, weft_tanh)
WEFT_HPP_UNARY(sigmoid, weft_sigmoid)
WEFT_HPP_UNARY(relu, weft_relu)
WEFT_HPP_UNARY(gelu, weft_gelu)
WEFT_HPP_UNARY(square, weft_square)
WEFT_HPP_UNARY(detach, weft_detach)
#undef WEFT_HPP_UNARY
inline tensor operator+(const tensor &a) { return a; }
/** \} */

/** \{ Reductions; over all dimensions if you give none. */
#define WEFT_HPP_REDUCTION(NAME, FUNCTION)                                                                   \
    inline tensor NAME(const tensor &a, int dim = WEFT_ALL_DIMS, bool keepdim = false)                       \
    {                                                                                                        \
        return call([&] { return FUNCTION(a.get(), dim, keepdim); });                                        \
    }
WEFT_HPP_REDUCTION(sum, weft_sum)
WEFT_HPP_REDUCTION(prod, weft_prod)
WEFT_HPP_REDUCTION(mean, weft_mean)
WEFT_HPP_REDUCTION(max, weft_max)
WEFT_HPP_REDUCTION(min, weft_min)
WEFT_HPP_REDUCTION(any, weft_any)
WEFT_HPP_REDUCTION(all, weft_all)
WEFT_HPP_REDUCTION(argmax, weft_argmax)
WEFT_HPP_REDUCTION(argmin, weft_argmin)
#undef WEFT_HPP_REDUCTION
/** \} */

inline tensor reshape(const tensor &a, shape s)
{
    return call([&] { return weft_reshape(a.get(), s.size(), s.data()); });
}
inline tensor transpose(const tensor &a, int dim0 = -2, int dim1 = -1)
{
    return call([&] { return weft_transpose(a.get(), dim0, dim1); });
}
inline tensor permute(const tensor &a, dims order)
{
    return call([&] { return weft_permute(a.get(), order.size(), order.data()); });
}
inline tensor softmax(const tensor &a, int dim)
{
    return call([&] { return weft_softmax(a.get(), dim); });
}
inline tensor cross_entropy(const tensor &logits, const tensor &targets)
{
    return call([&] { return weft_cross_entropy(logits.get(), targets.get(), nullptr); });
}
inline tensor slice(const tensor &a, int dim, std::int64_t start, std::int64_t stop, std::int64_t step = 1)
{
    return call([&] { return weft_slice(a.get(), dim, start, stop, step); });
}
inline tensor select(const tensor &a, int dim, std::int64_t index)
{
    return call([&] { return weft_select(a.get(), dim, index); });
}
inline tensor where(const tensor &condition, const tensor &a, const tensor &b)
{
    return call([&] { return weft_where(condition.get(), a.get(), b.get()); });
}
/** A captured graph (<weft/graph.h>) of a function that takes and returns owners. If the function throws, the call
 * throws the same exception.
 *
 *     weft::graph step("step", [&](const auto &inputs, const auto &scalars) {
 *         return std::vector<weft::tensor>{ inputs[0] - weft::matmul(x, inputs[0]) * scalars[0] };
 *     }, 1, 1, 1);
 *     w = step({ w }, { rate })[0]; */
class graph {
public:
    using tensors = std::vector<tensor>;
    using function = std::function<tensors(const tensors &inputs, const std::vector<double> &scalars)>;
    /** Arguments as in weft_graph_create(). The function returns num_outputs tensors. */
    graph(const std::string &name, function run, int num_inputs, int num_scalars, int num_outputs)
        : state_(new state{ std::move(run), num_inputs, num_scalars, num_outputs, 0, {} }),
          handle_(check_pointer(
              weft_graph_create(name.c_str(), called, state_.get(), num_inputs, num_scalars, num_outputs)))
    {
    }
    graph(const graph &) = delete;
    graph &operator=(const graph &) = delete;
    ~graph()
    {
        if (handle_ != nullptr && session_ == detail::sessions_ended) {
            weft_graph_destroy(handle_);
        }
    }
    weft_graph *get() const noexcept { return handle_; }
    /** Calls the graph, as weft_graph_call(). If nothing throws, the result is empty on error. */
    tensors operator()(const tensors &inputs, const std::vector<double> &scalars = {}) const
    {
        tensors results;
        if (inputs.size() != static_cast<std::size_t>(state_->num_inputs) ||
            scalars.size() != static_cast<std::size_t>(state_->num_scalars)) {
            wrong_number("inputs or scalars");
            return results;
        }
        std::vector<weft_tensor *> in, out(static_cast<std::size_t>(state_->num_outputs) + 1);
        for (const tensor &input : inputs) {
            in.push_back(input.get());
        }
        const scope around;
        state_->depth++;
        const weft_status status = weft_graph_call(handle_, in.data(), scalars.data(), out.data());
        state_->depth--;
        for (int i = 0; i < state_->num_outputs && status == WEFT_OK; i++) {
            results.push_back(own(out[static_cast<std::size_t>(i)]));
        }
        if (state_->depth == 0) {
            state_->held.clear();
        }
        check(status);
        return results;
    }

private:
    struct state {
        function run;
        int num_inputs, num_scalars, num_outputs;
        int depth;                 /* the function may call its own graph */
        std::vector<tensors> held; /* the function's results, until the graph's call has taken them */
    };
    static weft_status wrong_number(const char *what)
    {
#ifdef WEFT_NO_EXCEPTIONS
        (void)what;
        return WEFT_ERR_INVALID;
#else
        throw error(WEFT_ERR_INVALID, std::string("weft::graph: another number of ") + what + " than was given to the constructor");
#endif
    }
    static weft_status called(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
    {
        return guard([&] {
            state &s = *static_cast<state *>(context);
            tensors in;
            for (int i = 0; i < s.num_inputs; i++) {
                in.push_back(own(inputs[i]));
            }
            s.held.push_back(s.run(in, s.num_scalars == 0 ? std::vector<double>()
                                                          : std::vector<double>(scalars, scalars + s.num_scalars)));
            if (s.held.back().size() != static_cast<std::size_t>(s.num_outputs)) {
                return wrong_number("results");
            }
            for (int i = 0; i < s.num_outputs; i++) {
                outputs[i] = s.held.back()[static_cast<std::size_t>(i)].get();
            }
            return WEFT_OK;
        });
    }
    std::unique_ptr<state> state_;
    weft_graph *handle_;
    unsigned session_ = detail::sessions_ended;
};

/** Rows that each rank names by their indices (<weft/index_list.h>), each of which travels once to each rank that names it.
 *
 *     const weft::index_list ghosts(n, { 17, 18, 40 }, "S0"); // a process with one rank
 *     weft::tensor needed = ghosts.gather(x); */
class index_list {
public:
    /** Arguments as in weft_index_list_create(), a count for each hosted rank (WEFT_ERR_INVALID). BLOCKS. */
    index_list(std::int64_t size, const std::vector<std::int64_t> &counts, const std::vector<std::int64_t> &indices,
               const placements &p = "S0", mesh m = {})
        : handle_(check_pointer(weft_index_list_create(size, m.get(), p.get(), fits(counts, indices) ? counts.data() : nullptr, indices.data())))
    {
    }
    index_list(std::int64_t size, const std::vector<std::int64_t> &indices, const placements &p = "S0", mesh m = {})
        : index_list(size, { static_cast<std::int64_t>(indices.size()) }, indices, p, m)
    {
    }
    index_list(const index_list &) = delete;
    index_list &operator=(const index_list &) = delete;
    ~index_list()
    {
        if (handle_ != nullptr && session_ == detail::sessions_ended) {
            weft_index_list_destroy(handle_);
        }
    }
    weft_index_list *get() const noexcept { return handle_; }
    std::int64_t count() const { return weft_index_list_count(handle_); }
    tensor gather(const tensor &x) const
    {
        return call([&] { return weft_index_list_gather(handle_, x.get()); });
    }
    tensor scatter_add(const tensor &values) const
    {
        return call([&] { return weft_index_list_scatter_add(handle_, values.get()); });
    }

private:
    /* As many indices as the counts of all hosted ranks say; else C says that `counts` are missing. */
    static bool fits(const std::vector<std::int64_t> &counts, const std::vector<std::int64_t> &indices)
    {
        std::int64_t sum = 0;
        for (std::int64_t count : counts) {
            sum += count;
        }
        return counts.size() == static_cast<std::size_t>(weft_local_ranks()) && sum == static_cast<std::int64_t>(indices.size());
    }
    weft_index_list *handle_;
    unsigned session_ = detail::sessions_ended;
};

/** BLOCKS until all submitted tasks have ended. Returns or throws the error of a task that failed. */
inline weft_status wait()
{
    return check(weft_wait());
}

template <typename T> std::vector<T> tensor::values() const
{
    const tensor as = to_type(*this, dtype_of<T>::value);
    std::vector<T> found(as ? static_cast<std::size_t>(as.num_elements()) : 0);
    if (as && check(weft_to_host(as.get(), found.data(), found.size() * sizeof(T))) != WEFT_OK) {
        found.clear();
    }
    return found;
}

} // namespace with_exceptions or without_exceptions
} // namespace weft

#endif
