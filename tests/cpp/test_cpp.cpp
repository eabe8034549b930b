// The C++ header: owners, operators, exceptions; quiet.cpp has the same without exceptions, in one program.
//
// usage: test-cpp [COUNT [SEED]]     so many exceptions at random calls
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <weft/weft.hpp>

int quiet_failures();

static int failures = 0;

static void expect(bool holds, const char *what)
{
    if (!holds) {
        failures++;
        std::printf("failed: %s\n", what);
    }
}

// As cmocka says it.
template <typename Function> static void run(const char *name, Function function)
{
    const int before = failures;
    std::printf("[ RUN      ] %s\n", name);
    function();
    std::printf("[  %s ] %s\n", failures == before ? "     OK" : "FAILED ", name);
}

template <typename Function> static void throws(weft_status status, const char *part, Function function)
{
    try {
        function();
        expect(false, part);
    } catch (const weft::error &problem) {
        expect(problem.status() == status, problem.what());
        expect(std::string(problem.what()).find(part) != std::string::npos, problem.what());
    }
    expect(weft_last_status() == WEFT_OK, "the error is cleared");
}

using numbers = std::vector<double>;

static void operators()
{
    const weft::tensor a = weft::distribute<double>({ 1, 2, 3, 4 }, { 2, 2 }, "S0,R");
    const weft::tensor b = weft::full(WEFT_F64, { 2, 2 }, 2);
    expect((a + b).values<double>() == numbers({ 3, 4, 5, 6 }), "a + b");
    expect((a - 1).values<double>() == numbers({ 0, 1, 2, 3 }), "a - 1");
    expect((1 - a).values<double>() == numbers({ 0, -1, -2, -3 }), "1 - a");
    expect((-(a * b) / 4).values<double>() == numbers({ -0.5, -1, -1.5, -2 }), "-(a * b) / 4");
    expect((12 / a).values<double>() == numbers({ 12, 6, 4, 3 }), "12 / a");
    expect((a >= 3).values<std::int32_t>() == std::vector<std::int32_t>({ 0, 0, 1, 1 }), "a >= 3");
    expect((2 == a).values<std::int32_t>() == std::vector<std::int32_t>({ 0, 1, 0, 0 }), "2 == a");
    expect((a != b && true), "tensors are not compared as pointers");
    expect(weft::matmul(a, weft::transpose(a)).values<double>() == numbers({ 5, 11, 11, 25 }), "matmul");
    expect(weft::sum(a).item() == 10 && weft::max(a, 0).values<double>() == numbers({ 3, 4 }), "reductions");
    const weft::tensor whole = weft::arange(WEFT_I64, 0, 4);
    expect((whole * 2).dtype() == WEFT_I64 && (whole + 0.5).dtype() == WEFT_F32 && (whole / 2).dtype() == WEFT_F32,
           "types as PyTorch's");
    const std::int64_t large = 9007199254740993;
    expect((whole + large).values<std::int64_t>()[3] == large + 3, "whole numbers keep 64 bits");
    expect(weft::full(WEFT_I64, { 1 }, large).values<std::int64_t>()[0] == large, "full() of a whole number");
    const weft::tensor z = weft::full(WEFT_C128, { 1 }, std::complex<double>(1, 2)) * std::complex<double>(0, 1);
    expect(z.values<std::complex<double>>()[0] == std::complex<double>(-2, 1), "complex numbers");
    expect(((whole + 0.5) > 2).values<std::int32_t>() == std::vector<std::int32_t>({ 0, 0, 1, 1 }), "mixed types");
    weft::tensor c = weft::zeros(WEFT_F32, { 3 });
    expect((c + 1).dtype() == WEFT_F32, "a number does not widen");
    c += weft::ones(WEFT_F32, { 3 });
    c *= 3;
    expect(c.values<float>() == std::vector<float>({ 3, 3, 3 }), "in place");
}

static void owners()
{
    weft_counters before = {}, after = {};
    weft_get_counters(&before, sizeof(before));
    weft::tensor a = weft::ones(WEFT_F64, { 4 });
    {
        const weft::scope scope;
        a = a + a;                            // lives longer than the scope
        weft::tensor copy = a;
        const weft::tensor moved = std::move(copy);
        expect(!copy && moved.get() == a.get(), "a copy is the same tensor");
    }
    expect(weft::sum(a).item() == 8, "outlives the scope");
    weft_tensor *raw = a.get();
    a = weft::tensor();
    weft_tensor_num_elements(raw);
    expect(weft_last_status() == WEFT_ERR_INVALID, "the last reference is gone");
    weft_clear_error();
    const weft::tensor same = weft::to_type(weft::own(weft::zeros(WEFT_F32, { 2 }).get()), WEFT_F32);
    expect(weft::sum(same).item() == 0, "a function that returns its argument");
    weft_get_counters(&after, sizeof(after));
    expect(after.tasks > before.tasks, "tasks");
}

static void shapes()
{
    const std::vector<std::int64_t> sizes = { 2, 3 };
    expect(weft::zeros(WEFT_F32, sizes).sizes() == sizes, "a vector");
    expect(weft::zeros(WEFT_F32, { sizes.data(), sizes.size() }).sizes() == sizes, "a pointer and a number");
#ifdef __cpp_lib_span
    expect(weft::zeros(WEFT_F32, std::span<const std::int64_t>(sizes)).sizes() == sizes, "a span");
#endif
    expect(weft::permute(weft::zeros(WEFT_F32, { 2, 3, 4 }), { 2, 0, 1 }).size(0) == 4, "dimensions");
    const weft::tensor placed = weft::zeros(WEFT_F32, { 4, 4 }, { weft_shard(0), weft_shard(1) });
    expect(placed.describe().find("[S0,S1]") != std::string::npos, "placements");
    expect(weft::redistribute(placed).describe().find("[R,R]") != std::string::npos, "none: Replicate");
    expect(weft::call([&] { return weft_roll(placed.get(), 1, 0); }).ndim() == 2, "any function of C");
}

static void index_lists()
{
    const weft::index_list rows(3, { 2, 2, 1, 1 }, { 2, 0, 2, 0, 1, 1 }, "S0,R");
    const weft::tensor x = weft::arange(WEFT_F64, 0, 3), named = rows.gather(x);
    expect(rows.count() == 3 && named.values<double>() == std::vector<double>({ 2, 0, 1 }), "rows by index");
    expect(rows.scatter_add(named).values<double>() == std::vector<double>({ 0, 1, 2 }), "and back");
    bool thrown = false;
    try {
        const weft::index_list wrong(3, { 0 }, "S0,R");
    } catch (const weft::error &caught) {
        thrown = caught.status() == WEFT_ERR_INVALID;
    }
    expect(thrown, "a count for each rank");
}

static void errors()
{
    const weft::tensor a = weft::ones(WEFT_F32, { 2 });
    throws(WEFT_ERR_SHAPE, "weft_add", [&] { a + weft::ones(WEFT_F32, { 3 }); });
    throws(WEFT_ERR_INVALID, "weft_placements_parse", [] { weft::zeros(WEFT_F32, { 2 }, "S0,X"); });
    throws(WEFT_ERR_LAYOUT, "weft_zeros", [] { weft::zeros(WEFT_F32, { 2 }, "S0"); }); // the mesh has two dimensions
    throws(WEFT_ERR_INVALID, "weft_mesh_create", [] { weft::mesh({ 2, 2 }, { "one" }); });
    throws(WEFT_ERR_INVALID, "weft_distribute", [] { weft::distribute<double>({ 1, 2 }, { 3 }); });
    throws(WEFT_ERR_SHAPE, "weft_tensor_item", [&] { a.item(); });
    throws(WEFT_ERR_INVALID, "weft_add", [&] { a + weft::tensor(); });
    throws(WEFT_ERR_STATE, "weft_init", [] { weft::session second; });
}

static void gradients()
{
    weft::tensor w = weft::full(WEFT_F64, { 3 }, 2);
    w.requires_grad(true);
    expect(!w.grad(), "none yet");
    weft::sum(w * w).backward();
    expect(w.grad().values<double>() == numbers({ 4, 4, 4 }), "gradient");
    const weft::no_grad none;
    w -= w.grad() * 0.25;
    expect(weft::sum(w).item() == 3, "step");
    const weft::tensor leaf = weft::zeros(WEFT_F32, { 3 }, {}, {}, true);
    expect(weft_is_leaf(leaf.get()) && leaf.dtype() == WEFT_F32, "a leaf as it is made");
    expect(weft_is_leaf(weft::distribute<double>({ 1, 2 }, { 2 }, {}, {}, true).get()), "a leaf of an array");
    throws(WEFT_ERR_DTYPE, "weft_zeros", [] { weft::zeros(WEFT_I64, { 3 }, {}, {}, true); });
}

// ---- exceptions out of functions that the library calls

// What a function may throw; thrown at the call with this number.
struct mishap : std::runtime_error {
    explicit mishap(int number) : std::runtime_error("mishap"), number_(number) {}
    int number_;
};

struct throwing {
    int calls = 0, at = -1; // -1: never
    bool by_weft = false;   // an error of weft's own instead

    void step()
    {
        if (calls++ == at) {
            at = -1;
            if (by_weft) {
                weft::ones(WEFT_F32, { 2 }) + weft::ones(WEFT_F32, { 3 });
            }
            throw mishap(calls - 1);
        }
    }
};

static throwing now;
static weft::tensor weight;

static weft_status twice(void *, int, weft_tensor *const inputs[], int, weft_tensor *outputs[])
{
    return weft::guard([&] {
        now.step();
        weft_tensor *product = weft_mul(inputs[0], weight.get());
        now.step();
        outputs[0] = product;
        return WEFT_OK;
    });
}

static weft_status look(weft_tensor *, weft_tensor *gradient, void *)
{
    return weft::guard([&] {
        now.step();
        const weft::tensor kept = weft::own(gradient);
        now.step();
        return kept ? WEFT_OK : WEFT_ERR_INVALID;
    });
}

static weft_status forward(weft_module *, int, weft_tensor *const inputs[], int, weft_tensor *outputs[], void *)
{
    return weft::guard([&] {
        now.step();
        outputs[0] = weft_add_scalar(inputs[0], 1);
        now.step();
        return WEFT_OK;
    });
}

static weft_status plain(void *, weft_tensor *const inputs[], weft_tensor *outputs[])
{
    return weft::guard([&] {
        now.step();
        outputs[0] = weft_scale(inputs[0], 2);
        return WEFT_OK;
    });
}

// A backward pass with a hook through a segment that is computed again, a module and an opaque function: d/dw (2 (w x + 1)) at 3.
static weft::tensor pass(weft_module *module, const weft::tensor &x)
{
    const weft::scope around;
    now.step();
    weft_tensor *in = x.get(), *product = nullptr, *moved = nullptr, *scaled = nullptr;
    weft::check(weft_recompute(twice, nullptr, 0, 1, &in, 1, &product));
    weft::check(weft_module_forward(module, 1, &product, 1, &moved));
    weft::check(weft_backward(weft_sum(moved, WEFT_ALL_DIMS, false), NULL));
    const weft::tensor gradient = weft::own(weft_detach(weft_grad(weight.get())));
    weft_tensor *leaf = weight.get();
    weft::check(weft_zero_grad(1, &leaf));
    weft_tensor *of = gradient.get();
    weft::check(weft_graph_opaque("plain", WEFT_OPAQUE_CALLED, plain, nullptr, 1, &of, 1, &scaled));
    now.step();
    return weft::own(scaled);
}

static void exceptions(int count, unsigned random)
{
    weight = weft::full(WEFT_F64, { 2 }, 5);
    weight.requires_grad(true);
    weft::check(weft_set_grad_hook(weight.get(), look, nullptr));
    weft_module *module = weft_module_create("adds");
    weft::check(weft_module_set_forward(module, forward, nullptr));
    const weft::tensor x = weft::full(WEFT_F64, { 2 }, 3);
    const weft::graph graph("pass", [&](const auto &inputs, const auto &scalars) {
        return std::vector<weft::tensor>{ pass(module, inputs[0]) * scalars[0], inputs[0] };
    }, 1, 1, 2);
    for (int i = 0; i < count; i++) {
        random = random * 1664525 + 1013904223;
        now = { 0, static_cast<int>((random >> 8) % 12), (random >> 20) % 2 == 0 };
        const bool in_graph = (random >> 24) % 3 > 0;
        const int at = now.at;
        bool thrown = false;
        try {
            if (in_graph) {
                graph({ x }, { 1.0 });
            } else {
                pass(module, x);
            }
        } catch (const mishap &caught) {
            thrown = caught.number_ == at && !now.by_weft;
        } catch (const weft::error &caught) {
            thrown = now.by_weft && std::string(caught.what()).find("weft_add") == 0;
        }
        expect(thrown == (now.at == -1), "what was thrown inside comes out");
        expect(weft_last_status() == WEFT_OK, "no error is left");
        now.at = -1;
        weft_tensor *leaf = weight.get();
        weft_zero_grad(1, &leaf); // a pass that was ended may have given some gradients
        const std::vector<weft::tensor> results = graph({ x }, { 1.0 + i % 2 });
        expect(results[0].values<double>() == numbers({ 6.0 + 6.0 * (i % 2), 6.0 + 6.0 * (i % 2) }), "values after an exception");
        expect(results[1].get() == x.get(), "an input that is an output");
        expect(pass(module, x).values<double>() == numbers({ 6, 6 }), "gradients after an exception");
    }
    throws(WEFT_ERR_INVALID, "weft::graph", [&] { graph({}, { 1.0 }); });
    expect(weft_wait() == WEFT_OK, "no task has failed");
    weft_module_destroy(module);
    weight = weft::tensor();
}

int main(int argc, char **argv)
{
    const int count = argc > 1 ? std::atoi(argv[1]) : 400;
    const unsigned seed = argc > 2 ? static_cast<unsigned>(std::strtoul(argv[2], nullptr, 10)) : 1;
    weft::tensor late;
    {
        weft_config config = WEFT_CONFIG_DEFAULT;
        config.ranks = 4;
        weft::session session(config);
        const weft::use_mesh current(weft::mesh({ 2, 2 }, { "dp", "tp" }));
        run("operators", operators);
        run("owners", owners);
        run("shapes", shapes);
        run("index lists", index_lists);
        run("errors", errors);
        run("gradients", gradients);
        run("exceptions", [=] { exceptions(count, seed); });
        run("quiet", [] { failures += quiet_failures(); });
        late = weft::ones(WEFT_F32, { 2 });
        expect(weft::wait() == WEFT_OK, "no error");
        expect(session.finalize() == WEFT_OK && !session.is_running(), "the end");
    }
    late = weft::tensor();
    expect(weft_last_status() == WEFT_OK, "a tensor may outlive the session");
    std::printf("[==========] 8 test(s) run.\n");
    return failures != 0;
}
