#include "engine/model/store.h"

uint16_t f16_round(float value)
{
    uint32_t bits = float_bits(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t size = bits & 0x7fffffffu;

    if (size > 0x7f800000u)
        return sign | 0x7e00;
    /* From half way between the largest half and the next power of two on: infinity. */
    if (size >= 0x477ff000u)
        return sign | 0x7c00;
    if (size >= 0x38800000u) {
        uint32_t rounded = size + 0xfff + (size >> 13 & 1);

        return (uint16_t)(sign | (rounded - 0x38000000u) >> 13);
    }
    /* Subnormal: adding 0.5 makes a float's last place 2^-24, the step of subnormal halves, and rounds to it. */
    return (uint16_t)(sign | (float_bits(float_from_bits(size) + 0.5f) - 0x3f000000u));
}

/* double -> float by "round to odd", so that a second rounding to fewer bits is as good as one (Boldo and Melquiond 2008). */
static float float_to_odd(double value)
{
    float nearest = (float)value;
    uint32_t bits = float_bits(nearest);

    if ((double)nearest == value || value != value || (bits & 0x7fffffffu) >= 0x7f800000u)
        return nearest;
    if ((bits & 1) != 0)
        return nearest;
    /* The nearest is even and not exact: the odd neighbour is on value's other side or this one. */
    return float_from_bits((nearest < value) == (nearest > 0 || (nearest == 0 && value > 0)) ? bits + 1 : bits - 1);
}

void dtype_store(enum dtype dtype, double value, void *data, size_t index)
{
    char *at = (char *)data + index * dtype_bytes(dtype);
    uint32_t word = float_bits((float)value);
    uint16_t half;

    if (dtype == DTYPE_F32) {
        memcpy(at, &word, sizeof(word));
        return;
    }
    half = dtype == DTYPE_BF16 ? bf16_round(float_to_odd(value)) : f16_round(float_to_odd(value));
    memcpy(at, &half, sizeof(half));
}
