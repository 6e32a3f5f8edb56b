/* MIG: what instances a model can be cut into, and where. Placement is positional (eight memory slices, seven compute
 * slices), so free slices are not yet room: a buddy allocator, but for the one compute slice that is missing. */
#include "fleet/devices_state.h"

#define MIB (UINT64_C(1) << 20)

/* name of the same cut on A100-80 and H100-80 | on H200-141 | memory slices | compute slices | most | lawful starts, bits
 * | MiB on A100-80 | H100-80 | H200-141.
 * H100-80 and the half of A100-80 are what drivers report; A100-80 otherwise is twice what A100-40 reports; H200-141 is
 * its reported 1g times the slices. Both are less than the hardware gives, never more. */
#define MIG_PROFILE_LIST(X)                                                        \
    X("1g.10gb", "1g.18gb", 1, 1, 7, 0x7f, 9728, 9984, 16384)                      \
    X("1g.20gb", "1g.35gb", 2, 1, 4, 0x55, 19700, 20090, 32768)                    \
    X("2g.20gb", "2g.35gb", 2, 2, 3, 0x15, 19700, 20090, 32768)                    \
    X("3g.40gb", "3g.71gb", 4, 3, 2, 0x11, 40192, 40448, 65536)                    \
    X("4g.40gb", "4g.71gb", 4, 4, 1, 0x01, 40192, 40448, 65536)                    \
    X("7g.80gb", "7g.141gb", 8, 7, 1, 0x01, 80384, 81152, 131072)

struct mig_cut {
    const char *name_80;
    const char *name_141;
    uint16_t memory_slices;
    uint16_t compute_slices;
    uint16_t count_max;
    uint16_t starts;
    uint32_t mib[3];
};
static const struct mig_cut cuts[MIG_PROFILES] = {
#define X(name_80, name_141, memory, compute, most, starts, a100, h100, h200) \
    {name_80, name_141, memory, compute, most, starts, {a100, h100, h200}},
    MIG_PROFILE_LIST(X)
#undef X
};

static uint64_t cut_bytes(uint16_t model, uint32_t profile)
{
    check(model >= GPU_A100_80 && model <= GPU_H200_141);
    return cuts[profile].mib[model - GPU_A100_80] * MIB;
}

bool mig_profile_at(enum gpu_model model, uint32_t index, struct mig_profile *ret_profile)
{
    if (model < GPU_A100_80 || model > GPU_H200_141 || index >= MIG_PROFILES)
        return false;
    const struct mig_cut *cut = &cuts[index];

    *ret_profile = (struct mig_profile){
        .name = model == GPU_H200_141 ? cut->name_141 : cut->name_80,
        .memory_slices = cut->memory_slices,
        .compute_slices = cut->compute_slices,
        .count_max = cut->count_max,
        .starts = cut->starts,
        .bytes = cut_bytes((uint16_t)model, index),
    };
    return true;
}

/* Profiles are listed by memory, then by compute: of two with the same memory the one with less compute comes first, and
 * its lawful starts include the other's. */
uint32_t mig_smallest(uint16_t model, uint64_t bytes)
{
    uint32_t profile = 0;

    if (model < GPU_A100_80 || model > GPU_H200_141)
        return MIG_PROFILES;
    while (profile < MIG_PROFILES && cut_bytes(model, profile) < bytes)
        profile++;
    return profile;
}

uint8_t mig_slice_bits(uint32_t profile, uint32_t start)
{
    check(profile < MIG_PROFILES);
    check(start + cuts[profile].memory_slices <= MIG_MEMORY_SLICES);
    return (uint8_t)(((1u << cuts[profile].memory_slices) - 1) << start);
}

uint32_t mig_compute_slices(uint32_t profile)
{
    check(profile < MIG_PROFILES);
    return cuts[profile].compute_slices;
}

bool mig_fits(uint16_t model, const struct gpu *gpu, uint32_t profile, uint32_t start)
{
    if (model < GPU_A100_80 || model > GPU_H200_141 || profile >= MIG_PROFILES || start >= MIG_MEMORY_SLICES)
        return false;
    if ((cuts[profile].starts >> start & 1) == 0 || gpu->mig_count[profile] >= cuts[profile].count_max)
        return false;
    return (gpu->mig_memory & mig_slice_bits(profile, start)) == 0 &&
           gpu->mig_compute + cuts[profile].compute_slices <= MIG_COMPUTE_SLICES;
}

bool mig_fits_somewhere(uint16_t model, const struct gpu *gpu, uint32_t profile)
{
    for (uint32_t start = 0; start < MIG_MEMORY_SLICES; start++)
        if (mig_fits(model, gpu, profile, start))
            return true;
    return false;
}

/* How many lawful starts stay free, the large profiles' first: halves before quarters before eighths. */
static uint32_t starts_left(uint8_t used)
{
    uint32_t left[MIG_MEMORY_SLICES + 1] = {0};

    for (uint32_t profile = 0; profile < MIG_PROFILES; profile++)
        for (uint32_t start = 0; start < MIG_MEMORY_SLICES; start++)
            if ((cuts[profile].starts >> start & 1) != 0 && (used & mig_slice_bits(profile, start)) == 0)
                left[cuts[profile].memory_slices]++;
    return left[4] << 16 | left[2] << 8 | left[1];
}

uint32_t mig_best_start(uint16_t model, const struct gpu *gpu, uint32_t profile)
{
    uint32_t best = NONE_INDEX;
    uint32_t best_left = 0;

    for (uint32_t start = 0; start < MIG_MEMORY_SLICES; start++) {
        if (!mig_fits(model, gpu, profile, start))
            continue;
        uint32_t left = starts_left(gpu->mig_memory | mig_slice_bits(profile, start));

        if (best == NONE_INDEX || left > best_left) {
            best = start;
            best_left = left;
        }
    }
    return best;
}
