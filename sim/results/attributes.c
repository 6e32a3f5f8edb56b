#include "results/attributes.h"

#include <stdio.h>

static bool attribute_write(hid_t object, const char *name, hid_t type, const void *value)
{
    bool written = false;
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);

    if (attribute >= 0) {
        written = H5Awrite(attribute, type, value) >= 0;
        H5Aclose(attribute);
    }
    H5Sclose(space);
    return written;
}

bool attribute_text(hid_t object, const char *name, const char *text)
{
    bool written;
    hid_t type = H5Tcopy(H5T_C_S1);

    written = H5Tset_size(type, H5T_VARIABLE) >= 0 && H5Tset_cset(type, H5T_CSET_UTF8) >= 0 &&
              attribute_write(object, name, type, &text);
    H5Tclose(type);
    return written;
}

bool attribute_u8(hid_t object, const char *name, uint8_t value)
{
    return attribute_write(object, name, H5T_NATIVE_UINT8, &value);
}

bool attribute_u64(hid_t object, const char *name, uint64_t value)
{
    return attribute_write(object, name, H5T_NATIVE_UINT64, &value);
}

bool attribute_f64(hid_t object, const char *name, double value)
{
    return attribute_write(object, name, H5T_NATIVE_DOUBLE, &value);
}

struct error_text {
    char *text;
    size_t bytes;
    bool from_system;
};

static herr_t error_take(unsigned depth, const H5E_error2_t *error, void *context)
{
    static const char mark[] = "error message = '";
    struct error_text *found = context;
    const char *start = strstr(error->desc, mark);

    if (start != NULL && !found->from_system) {
        start += sizeof(mark) - 1;
        found->from_system = true;
        snprintf(found->text, found->bytes, "%.*s", (int)strcspn(start, "'"), start);
    } else if (depth == 0) {
        snprintf(found->text, found->bytes, "%s", error->desc);
    }
    return 0;
}

void attribute_error_text(char *ret_text, size_t text_bytes)
{
    struct error_text found = {ret_text, text_bytes, false};

    snprintf(ret_text, text_bytes, "no reason given");
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, error_take, &found);
}
