/* How a berth-hdf5 trace is laid out, for its reader and for who writes one. The root has the attribute `format` and a dataset
 * a column, of one length, integers of 64 bits: `id`, and where the trace has them `size_bytes`, both unsigned, `at_ns` and
 * `next` (numbers of requests from 0, 2^63-1: never), both signed. `names`, bytes, has the texts of the ids from 2^63 on, each closed by a newline. */
#ifndef TRACES_OBJECT_HDF5_H
#define TRACES_OBJECT_HDF5_H

#define OBJECT_HDF5_FORMAT "berth-objects-1"
#define OBJECT_HDF5_COLUMNS(X) X(ID, "id") X(SIZE, "size_bytes") X(TIME, "at_ns") X(NEXT, "next")
enum {
#define X(name, dataset) OBJECT_HDF5_##name,
    OBJECT_HDF5_COLUMNS(X)
#undef X
    OBJECT_HDF5_COLUMN_COUNT
};
#define OBJECT_HDF5_NAMES "names"

#endif
