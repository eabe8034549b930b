/* Writes datasets as other programs do: of types, and with orders of bytes, that weft does not write. Argument: the file. With a dataset
 * of it as second argument: prints the extents of its chunks instead. */
#include <stdio.h>

#include <hdf5.h>

static int write_dataset(hid_t file, const char *name, hid_t type, const double values[])
{
    const hsize_t sizes[] = { 4, 3 };
    const hid_t space = H5Screate_simple(2, sizes, NULL);
    const hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const int failed = dataset < 0 || H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0;
    H5Dclose(dataset);
    H5Sclose(space);
    return failed;
}

static int print_chunk(const char *path, const char *name)
{
    hsize_t extents[H5S_MAX_RANK];
    const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), dataset = H5Dopen2(file, name, H5P_DEFAULT);
    const hid_t storage = H5Dget_create_plist(dataset);
    const int ndim = H5Pget_chunk(storage, H5S_MAX_RANK, extents);
    for (int d = 0; d < ndim; d++) {
        printf("%llu ", (unsigned long long)extents[d]);
    }
    H5Pclose(storage);
    H5Dclose(dataset);
    return H5Fclose(file) < 0 || ndim < 0;
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        return print_chunk(argv[1], argv[2]);
    }
    double values[12];
    for (int i = 0; i < 12; i++) {
        values[i] = (i % 2 ? -1000 : 3000) + i;
    }
    const hid_t file = argc == 2 ? H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT) : -1;
    if (file < 0) {
        return 2;
    }
    const int failed = write_dataset(file, "f64 be", H5T_IEEE_F64BE, values) | write_dataset(file, "i16", H5T_STD_I16LE, values) |
                       write_dataset(file, "i16 be", H5T_STD_I16BE, values) | write_dataset(file, "i64 be", H5T_STD_I64BE, values) |
                       write_dataset(file, "f32 be", H5T_IEEE_F32BE, values);
    return H5Fclose(file) < 0 || failed;
}
