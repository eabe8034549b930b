/* The convolution of two long signals, by Fourier transforms.
 *
 *     c_k = sum over j of a_j b_(k - j)
 *
 * The signals have one dimension, which all ranks share, so no rank has a whole one: weft transforms them by the four-step algorithm. a_j =
 * r^j and b_j = s^j, whose convolution is known: c_k = (r^(k + 1) - s^(k + 1)) / (r - s) for the k that both signals reach.
 *
 *     convolve                      2^18 samples each, four ranks in this process
 *     mpirun -n 4 convolve 4194304  2^22 samples, one rank in each of four
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

/* A power of two: the fastest size without room for the signals to wrap around. */
static int64_t size_for(int64_t least)
{
    int64_t n = 1;
    while (n < least) {
        n *= 2;
    }
    return n;
}

static weft_tensor *convolve(weft_tensor *a, weft_tensor *b)
{
    const int64_t size = weft_tensor_size(a, 0) + weft_tensor_size(b, 0) - 1, n = size_for(size);
    weft_tensor *product = weft_mul(weft_rfft(a, n, 0, WEFT_FFT_BACKWARD), weft_rfft(b, n, 0, WEFT_FFT_BACKWARD));
    return weft_slice(weft_irfft(product, n, 0, WEFT_FFT_BACKWARD), 0, 0, size, 1);
}

/* q^first, q^(first + 1), ... */
static weft_tensor *powers(double q, int64_t first, int64_t count)
{
    const weft_placement shared = weft_shard(0);
    return weft_exp(weft_scale(weft_arange(WEFT_F64, (double)first, (double)(first + count), 1, NULL, &shared), log(q)));
}

int main(int count, char *arguments[])
{
    const double r = 0.9999, s = 0.999;
    int64_t n = count > 1 ? strtoll(arguments[1], NULL, 10) : 1 << 18;
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.ranks = 4;
    if (n < 1 || n > (int64_t)1 << 32 || weft_init(&config) != WEFT_OK) {
        fprintf(stderr, "usage: convolve [samples]\n");
        return 2;
    }
    weft_mesh_push(weft_mesh_create(1, (const int64_t[]){ weft_world_size() }, NULL));
    weft_scope_begin();
    weft_tensor *found = weft_slice(convolve(powers(r, 0, n), powers(s, 0, n)), 0, 0, n, 1);
    weft_tensor *exact = weft_scale(weft_sub(powers(r, 1, n), powers(s, 1, n)), 1 / (r - s));
    double error = NAN, largest = NAN;
    weft_tensor_item(weft_norm(weft_sub(found, exact), INFINITY, WEFT_ALL_DIMS, false), &error);
    weft_tensor_item(weft_norm(exact, INFINITY, WEFT_ALL_DIMS, false), &largest);
    if (weft_first_rank() == 0) {
        printf("%lld samples on %d ranks: the largest relative error is %.1e\n", (long long)n, (int)weft_world_size(), error / largest);
    }
    weft_scope_end();
    bool failed = weft_last_status() != WEFT_OK || !(error / largest < 1e-10);
    if (weft_last_status() != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error());
    }
    weft_finalize();
    return failed;
}
