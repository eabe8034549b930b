/* A Poisson problem on a periodic cube, solved by Fourier transforms.
 *
 *     - (d2/dx2 + d2/dy2 + d2/dz2) u = f   on [0, 2 pi)^3,   the mean of u is 0
 *
 * In Fourier space the operator is a factor: bin (kx, ky, kz) of u is that of f divided by kx^2 + ky^2 + kz^2. The grid has N x N x N
 * points, cut into slabs by their first index. weft_rfftn() transforms the two dimensions that each rank has whole, then weft moves
 * pencils between the ranks, and the third dimension is transformed; weft_irfftn() goes back. The error is that of the
 * arithmetic, because the solution is smooth: exp(sin x + sin y + sin z) less its mean.
 *
 *     spectral                    32^3 points, four ranks in this process
 *     mpirun -n 4 spectral 64     64^3 points, one rank in each of four
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

static const double turn = 6.28318530717958647692;

/* i / n turns, along one dimension of the grid: a tensor of sizes 1 but for that one. */
static weft_tensor *angles(int64_t n, int dim)
{
    int64_t shape[] = { 1, 1, 1 };
    shape[dim] = n;
    weft_tensor *line = weft_scale(weft_arange(WEFT_F64, 0, n, 1, NULL, NULL), turn / (double)n);
    return weft_reshape(line, 3, shape);
}

/* Squares of the frequencies of a line's bins: whole numbers, because the line has length 2 pi. */
static weft_tensor *squares(weft_tensor *frequencies, int dim)
{
    int64_t shape[] = { 1, 1, 1 };
    shape[dim] = weft_tensor_num_elements(frequencies);
    return weft_reshape(weft_square(frequencies), 3, shape);
}

/* f = - (cos^2 - sin) u, added up over the three dimensions. */
static weft_tensor *source(weft_tensor *u, int64_t n)
{
    weft_tensor *factor = NULL;
    for (int dim = 0; dim < 3; dim++) {
        weft_tensor *angle = angles(n, dim);
        weft_tensor *own = weft_sub(weft_sin(angle), weft_square(weft_cos(angle)));
        factor = dim == 0 ? own : weft_add(factor, own);
    }
    return weft_mul(factor, u);
}

static weft_tensor *solve(weft_tensor *f, int64_t n)
{
    const int64_t shape[] = { n, n, n };
    weft_tensor *k = weft_fftfreq(WEFT_F64, n, 1 / (double)n, NULL, NULL);
    weft_tensor *half = weft_rfftfreq(WEFT_F64, n, 1 / (double)n, NULL, NULL);
    weft_tensor *symbol = weft_add(weft_add(squares(k, 0), squares(k, 1)), squares(half, 2));
    weft_tensor *mean = weft_eq_scalar(symbol, 0); /* the bin of the mean, which is 0 */
    weft_tensor *spectrum = weft_rfftn(f, 3, NULL, NULL, WEFT_FFT_BACKWARD);
    weft_tensor *solved = weft_div(spectrum, weft_masked_fill(symbol, mean, 1));
    return weft_irfftn(weft_masked_fill(solved, mean, 0), 3, shape, NULL, WEFT_FFT_BACKWARD);
}

int main(int count, char *arguments[])
{
    int64_t n = count > 1 ? strtoll(arguments[1], NULL, 10) : 32;
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.ranks = 4;
    if (n < 1 || n > 4096 || weft_init(&config) != WEFT_OK) {
        fprintf(stderr, "usage: spectral [points of a side]\n");
        return 2;
    }
    weft_mesh_push(weft_mesh_create(1, (const int64_t[]){ weft_world_size() }, NULL));
    weft_placement slabs = weft_shard(0);
    weft_scope_begin();
    weft_tensor *sines = weft_add(weft_add(weft_sin(angles(n, 0)), weft_sin(angles(n, 1))), weft_sin(angles(n, 2)));
    weft_tensor *u = weft_redistribute(weft_exp(sines), NULL, &slabs);
    weft_tensor *found = solve(source(u, n), n);
    weft_tensor *exact = weft_sub(u, weft_mean(u, WEFT_ALL_DIMS, false));
    weft_tensor *difference = weft_norm(weft_sub(found, exact), INFINITY, WEFT_ALL_DIMS, false);
    double error = NAN;
    weft_tensor_item(difference, &error);
    if (weft_first_rank() == 0) {
        printf("%lld^3 points on %d ranks: the largest error is %.1e\n", (long long)n, (int)weft_world_size(), error);
    }
    weft_scope_end();
    bool failed = weft_last_status() != WEFT_OK || (n >= 32 && !(error < 1e-10));
    if (weft_last_status() != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error());
    }
    weft_finalize();
    return failed;
}
