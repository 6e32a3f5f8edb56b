#include "lending.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "engine/model/place.h"
#include "hold/hold.h"

#define LAYERS 2
#define LIST_MAX WEIGHTS_LISTED_MAX(LAYERS)

/* Rows of 80 and 232 bytes, which the device pads. */
static const struct dims dims = {.hidden = 40, .heads = 4, .kv_heads = 2, .head_dim = 10, .ffn = 116, .vocabulary = 67, .layers = LAYERS};
static const uint8_t digest[DIGEST_BYTES] = {0xba, 0x5e};

/* A process that answers with single bytes and does the next thing when it is told. */
struct child {
    pid_t id;
    int to, from;
};

static struct {
    char text[512];
    char folder[64], socket[96];
    struct layer_weights layer[LAYERS];
    struct model_weights weights;
    struct weight *list[LIST_MAX];
    uint32_t count;
    struct child holder, borrower[BORROWERS_MAX];
    int borrowers;
    int64_t bytes;
} rig;

static const char *say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *say(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    vsnprintf(rig.text, sizeof(rig.text), format, list);
    va_end(list);
    return rig.text;
}

/* --- the base --------------------------------------------------------------------------------------------------------------- */

static void fill(struct weight *weight, int32_t out, int32_t in, bool bias, uint64_t seed)
{
    uint16_t *data = malloc((size_t)out * (size_t)in * 2);
    uint16_t *biases = bias ? malloc((size_t)out * 2) : NULL;

    check(data != NULL && (!bias || biases != NULL));
    for (int32_t i = 0; i < out * in; i++)
        data[i] = (uint16_t)(hash_mix(seed * 1000003 + (uint64_t)i) & 0xbfff);
    for (int32_t i = 0; bias && i < out; i++)
        biases[i] = (uint16_t)(hash_mix(seed * 999983 + (uint64_t)i) & 0xbfff);
    *weight = (struct weight){.data = data, .bias = biases, .dtype = DTYPE_BF16, .out = out, .in = in, .stride = in};
}

static void base_make(enum lending_shape shape)
{
    const bool biased = shape == LENDING_BIASED;
    uint64_t seed = 1;

    memset(rig.layer, 0, sizeof(rig.layer));
    rig.weights = (struct model_weights){.layer = rig.layer};
    fill(&rig.weights.embed, dims.vocabulary, dims.hidden, false, seed++);
    fill(&rig.weights.norm, 1, dims.hidden, false, seed++);
    for (int i = 0; i < LAYERS; i++) {
        struct layer_weights *layer = &rig.layer[i];

        fill(&layer->attn_norm, 1, dims.hidden, false, seed++);
        fill(&layer->mlp_norm, 1, dims.hidden, false, seed++);
        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++)
            fill(module <= LORA_V ? &layer->qkv[module] : module == LORA_O ? &layer->o : module <= LORA_UP ? &layer->gate_up[module - LORA_GATE]
                                                                                                          : &layer->down,
                 lora_module_out(&dims, module), lora_module_in(&dims, module), biased && module <= LORA_V, seed++);
        if (biased) {
            fill(&layer->q_norm, 1, dims.head_dim, false, seed++);
            fill(&layer->k_norm, 1, dims.head_dim, false, seed++);
        }
    }
    if (biased)
        rig.weights.head = rig.weights.embed;
    else
        fill(&rig.weights.head, dims.vocabulary, dims.hidden, false, seed);
    rig.count = weights_list(&rig.weights, LAYERS, biased, rig.list);
}

static void base_free(void)
{
    for (uint32_t i = 0; i < rig.count; i++) {
        free((void *)(uintptr_t)rig.list[i]->data);
        free((void *)(uintptr_t)rig.list[i]->bias);
    }
}

/* --- processes -------------------------------------------------------------------------------------------------------------- */

static void tell(const struct child *child, char what)
{
    if (write(child->to, &what, 1) != 1)
        perror("a child of the test");
}

/* 0: it has ended. */
static char heard(int from)
{
    char what;

    return read(from, &what, 1) == 1 ? what : 0;
}

/* A child keeps no ends of others, whose end would not show then. */
static void close_ends(const struct child *child)
{
    if (child->id == 0)
        return;
    close(child->to);
    close(child->from);
}

/* In the child: `play` returns its exit code. */
static struct child child_begin(const struct device *device, int (*play)(const struct device *device, int from, int to))
{
    int there[2], back[2];
    struct child child;

    check(pipe(there) == 0 && pipe(back) == 0);
    fflush(stdout);
    child.id = fork();
    check(child.id >= 0);
    if (child.id == 0) {
        close(there[1]);
        close(back[0]);
        close_ends(&rig.holder);
        for (int i = 0; i < rig.borrowers; i++)
            close_ends(&rig.borrower[i]);
        signal(SIGSEGV, SIG_DFL); /* not the sanitizer's */
        signal(SIGPIPE, SIG_DFL);
        _exit(play(device, there[0], back[1]));
    }
    close(there[0]);
    close(back[1]);
    child.to = there[1];
    child.from = back[0];
    return child;
}

/* Its exit code, or 128 and its signal. */
static int child_end(struct child *child)
{
    int status;

    close(child->to);
    close(child->from);
    check(waitpid(child->id, &status, 0) == child->id);
    child->id = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
    (void)signal;
    stopped = 1;
}

static int complain(const struct refusal *refusal)
{
    fprintf(stderr, "%s\n", refusal->text);
    return 1;
}

/* Says what it has as eight bytes, then whatever the holder logs: the first is that it is ready. */
static int act_hold(const struct device *device, int from, int to)
{
    struct hold_config config = {.socket_path = rig.socket};
    struct held_base held = {.dev = NULL};
    struct refusal refusal = {{0}};
    int code = 0;

    (void)from;
    signal(SIGTERM, stop);
    signal(SIGPIPE, SIG_IGN);
    if (held_base_open(device, &rig.weights, &dims, digest, &held, &refusal) != STATUS_OK)
        return complain(&refusal);
    check(write(to, &held.base.memory.bytes, 8) == 8);
    config.base = &held.base;
    config.log = fdopen(to, "w");
    setvbuf(config.log, NULL, _IOLBF, 0);
    if (hold_run(&config, &stopped, &refusal) != STATUS_OK)
        code = complain(&refusal);
    held_base_close(&held);
    return code;
}

/* --- borrowers -------------------------------------------------------------------------------------------------------------- */

struct borrowed {
    struct loan loan;
    const struct device *device;
    struct dev *dev;
    struct model_weights placed;
    struct weight *list[LIST_MAX];
};

static struct dev *open_dev(const struct device *device, struct refusal *refusal)
{
    const struct dev_config config = {.dims = dims, .mode = MODE_FAST, .deterministic = true, .threads = 1, .rows_max = 1, .outputs_max = 1,
                                      .positions_max = 16, .ranks_count = 1};

    return device->open(&config, refusal->text, sizeof(refusal->text));
}

static bool borrow(const struct device *device, struct borrowed *ret_borrowed, struct refusal *refusal)
{
    memset(ret_borrowed, 0, sizeof(*ret_borrowed));
    ret_borrowed->device = device;
    if (loan_take(rig.socket, digest, &ret_borrowed->loan, refusal) != STATUS_OK)
        return false;
    ret_borrowed->dev = open_dev(device, refusal);
    if (ret_borrowed->dev == NULL || shared_base_place(&ret_borrowed->loan.base, device, ret_borrowed->dev, MODE_FAST, &rig.weights, LAYERS,
                                                       &ret_borrowed->placed, refusal) != STATUS_OK)
        return false;
    weights_list(&ret_borrowed->placed, LAYERS, weights_tied(&rig.weights), ret_borrowed->list);
    return true;
}

static void give_back(struct borrowed *borrowed)
{
    borrowed->device->close(borrowed->dev);
    free(borrowed->placed.layer);
    loan_return(&borrowed->loan);
}

static bool same_bytes(const struct borrowed *borrowed, const void *one, const void *other, size_t bytes)
{
    char *copies = malloc(2 * bytes);
    bool same;

    check(copies != NULL);
    borrowed->device->get(borrowed->dev, LANE_COMPUTE, copies, one, bytes);
    borrowed->device->get(borrowed->dev, LANE_COMPUTE, copies + bytes, other, bytes);
    borrowed->device->finish(borrowed->dev, LANE_COMPUTE);
    same = memcmp(copies, copies + bytes, bytes) == 0;
    free(copies);
    return same;
}

static bool same_weight(const struct borrowed *borrowed, const struct weight *lent, const struct weight *own)
{
    if (lent->out != own->out || lent->in != own->in || lent->stride != own->stride || (lent->bias != NULL) != (own->bias != NULL))
        return false;
    return same_bytes(borrowed, lent->data, own->data, (size_t)own->out * (size_t)own->stride * dtype_bytes(own->dtype)) &&
           (own->bias == NULL || same_bytes(borrowed, lent->bias, own->bias, (size_t)own->out * dtype_bytes(own->dtype)));
}

/* 0 when all is as the device lays it out when it loads the base itself, beside what is borrowed. */
static int compare(struct borrowed *borrowed)
{
    struct weight *list[LIST_MAX];
    struct model_weights own = {.layer = NULL};
    int code = weights_place(borrowed->device, borrowed->dev, &rig.weights, LAYERS, &own) == STATUS_OK ? 0 : 10;

    weights_list(&own, LAYERS, weights_tied(&rig.weights), list);
    for (uint32_t i = 0; i < rig.count && code == 0; i++) {
        if (rig.list[i]->data == NULL)
            code = borrowed->list[i]->data == NULL ? 0 : 11;
        else if (!same_weight(borrowed, borrowed->list[i], list[i]))
            code = 12;
    }
    for (int i = 0; i < LAYERS && code == 0; i++)
        for (int j = 0; j < 2 && code == 0; j++)
            if ((const char *)borrowed->placed.layer[i].qkv[j + 1].data - (const char *)borrowed->placed.layer[i].qkv[j].data !=
                (const char *)own.layer[i].qkv[j + 1].data - (const char *)own.layer[i].qkv[j].data)
                code = 13;
    if (weights_tied(&rig.weights) && borrowed->placed.head.data != borrowed->placed.embed.data)
        code = 14;
    free(own.layer);
    return code;
}

static void write_by_kernel(const struct borrowed *borrowed)
{
    const struct counts now = {.rows = 1};
    struct counts *there = borrowed->device->reserve(borrowed->dev, sizeof(now));
    float *gate_up = borrowed->device->reserve(borrowed->dev, (size_t)dims.ffn * 2 * sizeof(float));
    const struct batch batch = {.max = {.rows = 1}, .now = there};

    check(there != NULL && gate_up != NULL);
    borrowed->device->put(borrowed->dev, LANE_COMPUTE, there, &now, sizeof(now));
    borrowed->device->ops(borrowed->dev)->swiglu(borrowed->dev, (void *)(uintptr_t)borrowed->placed.embed.data, gate_up, &batch);
    borrowed->device->finish(borrowed->dev, LANE_COMPUTE);
}

static void write_by_put(const struct borrowed *borrowed)
{
    const uint64_t value = 0;

    borrowed->device->put(borrowed->dev, LANE_COMPUTE, (void *)(uintptr_t)borrowed->placed.embed.data, &value, sizeof(value));
    borrowed->device->finish(borrowed->dev, LANE_COMPUTE);
}

/* Maps, says 'm', and does what it is told: c compares and says 'c', k and p write and say 'w'. */
static int act_borrow(const struct device *device, int from, int to)
{
    struct borrowed borrowed;
    struct refusal refusal = {{0}};
    char what;
    int code = 0;

    if (!borrow(device, &borrowed, &refusal))
        return complain(&refusal);
    check(write(to, "m", 1) == 1);
    while (code == 0 && (what = heard(from)) != 0) {
        if (what == 'c')
            code = compare(&borrowed);
        else if (what == 'k')
            write_by_kernel(&borrowed);
        else
            write_by_put(&borrowed);
        check(write(to, what == 'c' ? "c" : "w", 1) == 1);
    }
    give_back(&borrowed);
    return code;
}

/* --- the rig ---------------------------------------------------------------------------------------------------------------- */

static bool holder_await(void)
{
    char what = 0;

    if (read(rig.holder.from, &rig.bytes, 8) != 8)
        return false;
    do
        what = heard(rig.holder.from);
    while (what != 0 && what != '\n'); /* its first line: ready */
    return what == '\n';
}

static const char *rig_begin(const struct device *device, enum lending_shape shape, int borrowers)
{
    snprintf(rig.folder, sizeof(rig.folder), "/tmp/berth-lend-XXXXXX");
    check(mkdtemp(rig.folder) != NULL);
    snprintf(rig.socket, sizeof(rig.socket), "%s/base.sock", rig.folder);
    base_make(shape);
    rig.borrowers = 0;
    rig.holder = child_begin(device, act_hold);
    if (!holder_await())
        return say("the holder did not get ready");
    for (; rig.borrowers < borrowers; rig.borrowers++)
        rig.borrower[rig.borrowers] = child_begin(device, act_borrow);
    for (int i = 0; i < borrowers; i++)
        if (heard(rig.borrower[i].from) != 'm')
            return say("borrower %d did not map the base", i);
    return NULL;
}

static const char *all_find_the_base(void)
{
    for (int i = 0; i < rig.borrowers; i++)
        tell(&rig.borrower[i], 'c');
    for (int i = 0; i < rig.borrowers; i++)
        if (heard(rig.borrower[i].from) != 'c')
            return say("borrower %d does not find the base", i);
    return NULL;
}

/* Ends whoever is left; `answer` goes before what it finds. */
static const char *rig_end(const char *answer)
{
    for (int i = 0; i < rig.borrowers; i++) {
        const int code = child_end(&rig.borrower[i]);

        if (code != 0 && answer == NULL)
            answer = say("borrower %d ended with %d", i, code);
    }
    if (rig.holder.id != 0) {
        int code;

        kill(rig.holder.id, SIGTERM);
        code = child_end(&rig.holder);
        if (code != 0 && answer == NULL)
            answer = say("the holder ended with %d", code);
        if (access(rig.socket, F_OK) == 0 && answer == NULL)
            answer = say("the holder left its socket behind");
    }
    unlink(rig.socket);
    rmdir(rig.folder);
    base_free();
    return answer;
}

/* --- promises --------------------------------------------------------------------------------------------------------------- */

const char *lending_same_bits(const struct device *device, enum lending_shape shape)
{
    const char *answer = rig_begin(device, shape, 3);

    return rig_end(answer == NULL ? all_find_the_base() : answer);
}

const char *lending_outlives_holder(const struct device *device, enum lending_shape shape)
{
    const char *answer = rig_begin(device, shape, 2);

    if (answer == NULL) {
        kill(rig.holder.id, SIGKILL);
        if (child_end(&rig.holder) != 128 + SIGKILL)
            answer = say("the holder was not killed");
    }
    for (int i = 0; i < 2 && answer == NULL; i++)
        answer = all_find_the_base();
    return rig_end(answer);
}

const char *lending_write_ends_writer(const struct device *device, enum lending_write write)
{
    const char *answer = rig_begin(device, LENDING_PLAIN, 2);

    if (answer == NULL) {
        struct child *writer = &rig.borrower[--rig.borrowers];
        int code;

        tell(writer, write == LENDING_KERNEL ? 'k' : 'p');
        if (heard(writer->from) != 0)
            answer = say("a borrower wrote to the base and went on");
        code = child_end(writer);
        if (code <= 128 && answer == NULL)
            answer = say("a borrower that wrote to the base ended with %d and not by a signal", code);
    }
    return rig_end(answer == NULL ? all_find_the_base() : answer);
}

/* In a process of its own, as all that touches the device. */
static int act_refused(const struct device *device, int from, int to)
{
    uint8_t other[DIGEST_BYTES];
    struct borrowed borrowed;
    struct model_weights shorter = rig.weights, placed;
    struct refusal refusal = {{0}};

    (void)from;
    (void)to;
    memcpy(other, digest, sizeof(other));
    other[DIGEST_BYTES - 1] ^= 1;
    if (loan_take(rig.socket, other, &borrowed.loan, &refusal) != STATUS_INVALID || strstr(refusal.text, "digest") == NULL)
        return 2;
    if (!borrow(device, &borrowed, &refusal))
        return complain(&refusal);
    shorter.embed.out--;
    if (shared_base_place(&borrowed.loan.base, device, borrowed.dev, MODE_FAST, &shorter, LAYERS, &placed, &refusal) != STATUS_INVALID)
        return 3;
    free(placed.layer);
    give_back(&borrowed);
    return 0;
}

const char *lending_refuses_others(const struct device *device)
{
    const char *answer = rig_begin(device, LENDING_PLAIN, 0);

    if (answer == NULL) {
        struct child child = child_begin(device, act_refused);
        const int code = child_end(&child);

        if (code != 0)
            answer = say(code == 2 ? "another base's digest is taken" : code == 3 ? "another shape is taken" : "ended with %d", code);
    }
    return rig_end(answer);
}

const char *lending_begin(const struct device *device, int borrowers, struct lending *ret_lending)
{
    const char *answer = rig_begin(device, LENDING_PLAIN, borrowers);

    if (answer == NULL)
        answer = all_find_the_base();
    ret_lending->holder = (int)rig.holder.id;
    for (int i = 0; i < borrowers && answer == NULL; i++)
        ret_lending->borrower[i] = (int)rig.borrower[i].id;
    ret_lending->bytes = rig.bytes;
    return answer == NULL ? NULL : rig_end(answer);
}

const char *lending_end(void)
{
    return rig_end(NULL);
}
