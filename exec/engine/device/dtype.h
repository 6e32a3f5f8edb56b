/* Number types of tensors in files and in memory. */
#ifndef DEVICE_DTYPE_H
#define DEVICE_DTYPE_H

#include "base/base.h"

#define DTYPES(X) X(F32, "F32", 4) X(F16, "F16", 2) X(BF16, "BF16", 2)
enum dtype {
#define X(name, text, bytes) DTYPE_##name,
    DTYPES(X)
#undef X
    DTYPE_COUNT
};

static inline size_t dtype_bytes(enum dtype dtype)
{
    return dtype == DTYPE_F32 ? 4 : 2;
}

static inline float float_from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline uint32_t float_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float bf16_widen(uint16_t value)
{
    return float_from_bits((uint32_t)value << 16);
}

/* To nearest, ties to even; a NaN stays one. */
static inline uint16_t bf16_round(float value)
{
    uint32_t bits = float_bits(value);

    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float f16_widen(uint16_t value)
{
    uint32_t sign = (uint32_t)(value & 0x8000) << 16;
    uint32_t exponent = value >> 10 & 0x1f;
    uint32_t fraction = value & 0x3ff;

    if (exponent == 0x1f)
        return float_from_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent != 0)
        return float_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    /* Subnormal: fraction / 2^24, exact in a float. */
    return float_from_bits(sign | float_bits((float)fraction * 0x1p-24f));
}

/* One number at any alignment. */
static inline float dtype_load(enum dtype dtype, const void *data, size_t index)
{
    const unsigned char *at = (const unsigned char *)data + index * dtype_bytes(dtype);
    uint32_t bits = 0;

    memcpy(&bits, at, dtype_bytes(dtype));
    return dtype == DTYPE_F32 ? float_from_bits(bits) : dtype == DTYPE_BF16 ? bf16_widen((uint16_t)bits) : f16_widen((uint16_t)bits);
}

#endif
