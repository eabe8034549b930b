// The heat equation on a ring, in C++: rods as columns, cells over all ranks, compared with a plain loop. Ends with status 1 if
// anything is wrong.
//
//     c++ -std=c++17 heat.cpp $(pkg-config --cflags --libs weft) -Wl,-rpath,"$(pkg-config --variable=libdir weft)" -o heat
//     mpirun -n 3 ./heat
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <weft/weft.hpp>

constexpr std::int64_t cells = 101, rods = 4;
constexpr int steps = 25;
constexpr double rate = 0.2;

static weft::tensor roll(const weft::tensor &a, std::int64_t by)
{
    return weft::call([&] { return weft_roll(a.get(), by, 0); }); // any function of C
}

static std::vector<double> start()
{
    std::vector<double> values(cells * rods);
    for (std::size_t i = 0; i < values.size(); i++) {
        values[i] = std::sin(static_cast<double>(i));
    }
    return values;
}

static std::vector<double> by_weft()
{
    weft::tensor u = weft::distribute<double>(start(), { cells, rods }, "S0");
    for (int step = 0; step < steps; step++) {
        u = u * (1 - 2 * rate) + (roll(u, 1) + roll(u, -1)) * rate; // the former tensor ends with its last owner
    }
    return u.values<double>();
}

static std::vector<double> by_a_loop()
{
    std::vector<double> now = start(), next(now.size());
    for (int step = 0; step < steps; step++) {
        for (std::int64_t i = 0; i < cells; i++) {
            for (std::int64_t j = 0; j < rods; j++) {
                const auto at = [&](std::int64_t cell) { return static_cast<std::size_t>((cell + cells) % cells * rods + j); };
                next[at(i)] = now[at(i)] * (1 - 2 * rate) + (now[at(i - 1)] + now[at(i + 1)]) * rate;
            }
        }
        now.swap(next);
    }
    return now;
}

int main()
{
    try {
        const weft::session session;
        const weft::use_mesh all(weft::mesh({ weft_world_size() }));
        const std::vector<double> values = by_weft(), expected = by_a_loop();
        double worst = 0;
        for (std::size_t i = 0; i < values.size(); i++) {
            worst = std::fmax(worst, std::fabs(values[i] - expected[i]));
        }
        if (!(worst < 1e-12)) {
            std::printf("differs by %g\n", worst);
            return 1;
        }
        if (weft_process_index() == 0) {
            std::printf("ranks: %d, as the plain loop\n", weft_world_size());
        }
        return 0;
    } catch (const weft::error &problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        return 1;
    }
}
