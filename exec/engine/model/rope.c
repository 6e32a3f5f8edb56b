#include <math.h>

#include "engine/model/config.h"

#define TWO_PI 6.283185307179586476925286766559

static double frequency_plain(double theta, int32_t pair, int32_t head_dim)
{
    return pow(theta, -2.0 * pair / head_dim);
}

static double frequency_dynamic(const struct model_config *config, int32_t positions, int32_t pair)
{
    const struct rope *rope = &config->rope;
    double longest = positions > rope->positions_trained ? positions : rope->positions_trained;
    double head_dim = config->dims.head_dim;
    double stretch;

    /* Of a head of two there is one pair, which turns by 1 whatever theta is. */
    if (config->dims.head_dim == 2)
        return 1;
    stretch = rope->factor * longest / rope->positions_trained - (rope->factor - 1);
    return frequency_plain(rope->theta * pow(stretch, head_dim / (head_dim - 2)), pair, config->dims.head_dim);
}

static double frequency_llama3(const struct model_config *config, int32_t pair)
{
    const struct rope *rope = &config->rope;
    double plain = frequency_plain(rope->theta, pair, config->dims.head_dim);
    double wavelength = TWO_PI / plain;
    double share;

    if (wavelength < rope->positions_trained / rope->high_freq_factor)
        return plain;
    if (wavelength > rope->positions_trained / rope->low_freq_factor)
        return plain / rope->factor;
    share = (rope->positions_trained / wavelength - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor);
    return (1 - share) * plain / rope->factor + share * plain;
}

double rope_frequency(const struct model_config *config, int32_t positions, int32_t pair)
{
    check(pair >= 0 && pair < config->dims.head_dim / 2);
    switch (config->rope.kind) {
    case ROPE_LINEAR: return frequency_plain(config->rope.theta, pair, config->dims.head_dim) / config->rope.factor;
    case ROPE_DYNAMIC: return frequency_dynamic(config, positions, pair);
    case ROPE_LLAMA3: return frequency_llama3(config, pair);
    default: return frequency_plain(config->rope.theta, pair, config->dims.head_dim);
    }
}

void rope_angles(const struct model_config *config, int32_t positions, float *ret_angles)
{
    int32_t pairs = config->dims.head_dim / 2;

    for (int32_t pair = 0; pair < pairs; pair++) {
        double frequency = rope_frequency(config, positions, pair);

        for (int32_t position = 0; position < positions; position++) {
            float *row = ret_angles + (size_t)position * (size_t)config->dims.head_dim;

            row[pair] = (float)cos(position * frequency);
            row[pairs + pair] = (float)sin(position * frequency);
        }
    }
}
