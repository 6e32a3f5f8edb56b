/* Scalar attributes of HDF5 objects, and what HDF5 says when it fails. Text is variable-length UTF-8, so that h5py gives
 * a str. Each returns false when HDF5 refuses. */
#ifndef RESULTS_ATTRIBUTES_H
#define RESULTS_ATTRIBUTES_H

#include <hdf5.h>

#include "base/base.h"

bool attribute_text(hid_t object, const char *name, const char *text);
bool attribute_u8(hid_t object, const char *name, uint8_t value);
bool attribute_u64(hid_t object, const char *name, uint64_t value);
bool attribute_f64(hid_t object, const char *name, double value);

/* The operating system's words when they are in HDF5's error stack ("No space left on device"), else the deepest
 * description there. Call before the next HDF5 function. */
void attribute_error_text(char *ret_text, size_t text_bytes);

#endif
