/* The CPU as a device: its memory is the host's, every call is done when it returns, and nothing is kept as a graph. */
#include "engine/device/cpu.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/ops/cpu/train.h"
#include "engine/ops/cpu/work.h"

static const char *config_mistake(const struct dev_config *config)
{
    const struct dims *dims = &config->dims;

    if (dims->hidden < 1 || dims->ffn < 1 || dims->vocabulary < 1 || dims->layers < 1)
        return "a dimension is below 1";
    if (dims->head_dim < 2 || dims->head_dim % 2 != 0)
        return "the head size is not an even number";
    if (dims->kv_heads < 1 || dims->heads < 1 || dims->heads % dims->kv_heads != 0)
        return "the number of heads is no multiple of the number of kv heads";
    if (config->rows_max < 1 || config->outputs_max < 0 || config->positions_max < 1)
        return "no rows, outputs or positions to reserve for";
    if (config->lora_rank_max < 0 || config->lora_rank_max > LORA_RANK_MAX || config->lora_rank_max % LORA_RANK_STEP != 0)
        return "the largest LoRA rank is not a padded rank";
    if (config->threads < 1)
        return "no threads";
    if (config->kernels >= KERNELS_COUNT || !kernel_set_runs_here(config->kernels))
        return "this machine does not run that set of kernels";
    return NULL;
}

/* Stands before each piece of memory that was reserved, so that close can free what is left. */
struct reserved {
    _Alignas(256) struct reserved *next;
    struct reserved **link;     /* what points at this one */
};

static void *cpu_reserve(struct dev *dev, size_t bytes)
{
    struct reserved *piece;

    if (bytes > SIZE_MAX / 2)
        return NULL;
    bytes = sizeof(*piece) + (bytes + 255) / 256 * 256;
    piece = aligned_alloc(256, bytes);
    if (piece == NULL)
        return NULL;
    memset(piece, 0, bytes);
    piece->next = dev->reserved;
    piece->link = &dev->reserved;
    if (piece->next != NULL)
        piece->next->link = &piece->next;
    dev->reserved = piece;
    return piece + 1;
}

static void cpu_release(struct dev *dev, void *memory)
{
    struct reserved *piece = memory;

    (void)dev;
    if (memory == NULL)
        return;
    piece--;
    *piece->link = piece->next;
    if (piece->next != NULL)
        piece->next->link = piece->link;
    free(piece);
}

/* What ops want besides, by dev->config; dev->train is there when it trains. */
static uint32_t pieces_of(struct dev *dev, struct dev_piece ret_pieces[DEV_PIECES_MAX])
{
    const struct dev_config *config = &dev->config;
    const int64_t size = (int64_t)act_bytes(config->mode);
    const struct dev_piece pieces[] = {
        {(void **)&dev->scratch, config->threads * (int64_t)dev->scratch_bytes},
        {(void **)&dev->outputs, (int64_t)config->outputs_max * config->dims.hidden * size},
        {(void **)&dev->u, config->rows_max * dev->u_stride * size},
        {(void **)&dev->parts, 3 * (int64_t)config->rows_max * (int64_t)sizeof(*dev->parts)},
    };

    memcpy(ret_pieces, pieces, sizeof(pieces));
    return ARRAY_COUNT(pieces) + (config->trains ? train_pieces(dev->train, config, ret_pieces + ARRAY_COUNT(pieces)) : 0);
}

static void dev_init(struct dev *dev, const struct dev_config *config)
{
    dev->config = *config;
    dev->u_stride = 3 * (int64_t)config->lora_rank_max;
    dev->scratch_bytes = config->trains ? train_scratch_bytes(config) : work_scratch_bytes(config);
}

static int64_t cpu_ops_bytes(const struct dev_config *config)
{
    struct train_memory train = {0};
    struct dev dev = {.train = &train};
    struct dev_piece pieces[DEV_PIECES_MAX];
    int64_t bytes = 0;
    uint32_t count;

    dev_init(&dev, config);
    count = pieces_of(&dev, pieces);
    for (uint32_t i = 0; i < count; i++)
        bytes += dev_piece_bytes(pieces[i].bytes);
    return bytes;
}

static void cpu_close(struct dev *dev)
{
    struct dev_piece pieces[DEV_PIECES_MAX];
    uint32_t count;

    if (dev == NULL)
        return;
    while (dev->reserved != NULL)
        cpu_release(dev, dev->reserved + 1);
    team_close(dev->team);
    team_close(dev->solo);
    if (dev->train != NULL || !dev->config.trains) {
        count = pieces_of(dev, pieces);
        for (uint32_t i = 0; i < count; i++)
            free(*pieces[i].at);
    }
    free(dev->train);
    free(dev);
}

static bool dev_equip(struct dev *dev)
{
    const struct dev_config *config = &dev->config;
    struct dev_piece pieces[DEV_PIECES_MAX];
    uint32_t count;

    dev->kernels = kernels_of(config->kernels);
    dev->ops = &ops_cpu;
    dev->train = config->trains ? train_memory_create(config) : NULL;
    if (config->trains && dev->train == NULL)
        return false;
    count = pieces_of(dev, pieces);
    for (uint32_t i = 0; i < count; i++) {
        *pieces[i].at = aligned_alloc(64, (size_t)(pieces[i].bytes / 64 + 1) * 64);
        if (*pieces[i].at == NULL)
            return false;
    }
    dev->team = team_open(config->threads);
    dev->solo = team_open(1);
    return dev->team != NULL && dev->solo != NULL;
}

static struct dev *cpu_open(const struct dev_config *config, char *ret_error, size_t error_bytes)
{
    const char *mistake = config_mistake(config);
    struct dev *dev = NULL;

    if (mistake == NULL) {
        dev = calloc(1, sizeof(*dev));
        if (dev != NULL)
            dev_init(dev, config);
        if (dev == NULL || !dev_equip(dev)) {
            cpu_close(dev);
            mistake = "the machine refuses memory or a thread";
        }
    }
    if (mistake != NULL) {
        snprintf(ret_error, error_bytes, "%s", mistake);
        return NULL;
    }
    return dev;
}

static const struct ops *cpu_ops(const struct dev *dev)
{
    return dev->ops;
}

static const struct train_ops *cpu_train_ops(const struct dev *dev)
{
    check(dev->config.trains);
    return &train_ops_cpu;
}

static void cpu_put(struct dev *dev, enum lane lane, void *to_device, const void *host, size_t bytes)
{
    (void)dev;
    (void)lane;
    memcpy(to_device, host, bytes);
}

static void cpu_move(struct dev *dev, enum lane lane, void *to, const void *from, size_t bytes)
{
    (void)dev;
    (void)lane;
    memmove(to, from, bytes);
}

/* Everything before a mark is done when it is made. */
static uint64_t cpu_mark(struct dev *dev, enum lane lane)
{
    (void)dev;
    (void)lane;
    return 1;
}

static void cpu_wait(struct dev *dev, enum lane lane, uint64_t mark)
{
    (void)dev;
    (void)lane;
    (void)mark;
}

static bool cpu_passed(struct dev *dev, uint64_t mark)
{
    (void)dev;
    (void)mark;
    return true;
}

static void cpu_finish(struct dev *dev, enum lane lane)
{
    (void)dev;
    (void)lane;
}

static enum status cpu_weight(struct dev *dev, const struct weight *file, struct weight *ret_weight)
{
    (void)dev;
    *ret_weight = *file;
    return STATUS_OK;
}

static void cpu_record(struct dev *dev)
{
    (void)dev;
}

static uint32_t cpu_recorded(struct dev *dev)
{
    (void)dev;
    return 0;
}

/* recorded() never answered with a graph. */
static void cpu_replay(struct dev *dev, uint32_t graph)
{
    (void)dev;
    (void)graph;
    check_failed("a graph on the CPU", __FILE__, __LINE__);
}

const struct device device_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .ops_bytes = cpu_ops_bytes,
    .ops = cpu_ops,
    .reserve = cpu_reserve,
    .release = cpu_release,
    .put = cpu_put,
    .get = cpu_put,
    .move = cpu_move,
    .mark = cpu_mark,
    .wait = cpu_wait,
    .passed = cpu_passed,
    .finish = cpu_finish,
    .weight = cpu_weight,
    .record = cpu_record,
    .recorded = cpu_recorded,
    .replay = cpu_replay,
    .b_in_pairs = true,
    .has_threads = true,
    .weights_in_place = true,
    .train_ops = cpu_train_ops,
};
