/* Policies that know the future: by hand, and against their naive twins. */
#include "host.h"
#include "support.h"

static bool later(const struct host *host, const struct host_object *a, const struct host_object *b)
{
    (void)host;
    return a->next_use != b->next_use ? a->next_use > b->next_use : a->order < b->order;
}

static uint32_t twin_belady(struct host *host)
{
    return host_first(host, later);
}

static void belady_is_its_twin(void **state)
{
    (void)state;
    host_compare_all(&(struct host_twin){.policy = &evict_belady, .victim = twin_belady});
}

/* In doubles, which are exact for these. */
static bool larger_and_later(const struct host *host, const struct host_object *a, const struct host_object *b)
{
    const double first = (double)a->size * ((double)a->next_use - (double)host->now);
    const double second = (double)b->size * ((double)b->next_use - (double)host->now);

    if (a->next_use == NONE_USE || b->next_use == NONE_USE) {
        if (a->next_use != b->next_use)
            return a->next_use == NONE_USE;
        return a->size != b->size ? a->size > b->size : a->order < b->order;
    }
    return first != second ? first > second : a->order < b->order;
}

static uint32_t twin_belady_size(struct host *host)
{
    return host_first(host, larger_and_later);
}

static void belady_size_is_its_twin(void **state)
{
    (void)state;
    host_compare_all(&(struct host_twin){.policy = &evict_belady_size, .victim = twin_belady_size});
}

/* Sizes of 62 bits and times of 40: products of more than 64 bits, told apart by their last bit, and crossings far away. */
static void belady_size_compares_exactly(void **state)
{
    const uint64_t large = UINT64_C(1) << 62;
    const uint64_t late = UINT64_C(1) << 40;
    const struct evict_setup setup = {.policy = &evict_belady_size, .entries_max = 4, .capacity = 1};
    _Alignas(64) unsigned char memory[1024];
    struct evict_view view;
    uint32_t entries[3];

    (void)state;
    assert_true(evict_view_bytes(&evict_belady_size, 4) <= sizeof(memory));
    evict_view_begin(&view, memory, &setup);
    for (uint32_t i = 0; i < 3; i++) {
        entries[i] = evict_entry_take(&view, i, large - i, large - i);
        view.entries[entries[i]].evictable = true;
        view.next_use = late + i % 2;
        evict_belady_size.insert(&view, entries[i]);
    }
    /* Entry 1 is one byte smaller and wanted one use later: ahead until a use before the end, when what's left are 2 - 1 parts of 2^62. */
    assert_int_equal(evict_belady_size.victim(&view), entries[1]);
    view.now = late - 1;
    assert_int_equal(evict_belady_size.victim(&view), entries[1]);
    view.entries[entries[1]].evictable = false;
    assert_int_equal(evict_belady_size.victim(&view), entries[0]);
    view.entries[entries[1]].evictable = true;
    view.next_use = late;
    evict_belady_size.touch(&view, entries[1]);
    assert_int_equal(evict_belady_size.victim(&view), entries[0]);
    evict_belady_size.remove(&view, entries[0], true);
    assert_int_equal(evict_belady_size.victim(&view), entries[1]);
}

static void bounds_are_no_policy_of_a_server(void **state)
{
    (void)state;
    assert_null(evict_policy_find("belady"));
    assert_null(evict_policy_find("belady-size"));
    assert_ptr_equal(evict_bound_find("belady-size"), &evict_belady_size);
    assert_null(evict_bound_find("lru"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(belady_is_its_twin),
        cmocka_unit_test(belady_size_is_its_twin),
        cmocka_unit_test(belady_size_compares_exactly),
        cmocka_unit_test(bounds_are_no_policy_of_a_server),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
