#include "hardware/link.h"
#include "support.h"

static void one_flow_takes_bytes_over_rate(void **state)
{
    (void)state;
    struct link_flow flows[1];
    struct link link;

    link_init(&link, 25e9, flows, 1);
    link_start(&link, 0, 117e6, 25e9, 1, 7);
    assert_int_equal(link_next_ns(&link), 4680000);
    assert_int_equal(link_finish(&link, 4680000), 7);
    assert_int_equal(link_next_ns(&link), NEVER_NS);
}

static void equal_flows_share_the_link(void **state)
{
    (void)state;
    struct link_flow flows[2];
    struct link link;

    link_init(&link, 1e9, flows, 2);
    link_start(&link, 0, 1e6, 1e9, 1, 1);
    link_start(&link, 500000, 1e6, 1e9, 2, 2); /* the first is half done: 0.5 MB left, at half the rate */
    assert_int_equal(link_next_ns(&link), 1500000);
    assert_int_equal(link_finish(&link, 1500000), 1);
    assert_int_equal(link_next_ns(&link), 2000000); /* 0.5 MB went while sharing, 0.5 MB alone */
    assert_int_equal(link_finish(&link, 2000000), 2);
}

static void a_capped_flow_leaves_the_rest_to_others(void **state)
{
    (void)state;
    struct link_flow flows[2];
    struct link link;

    link_init(&link, 1e9, flows, 2);
    link_start(&link, 0, 0.72e6, 0.72e9, 1, 1); /* eight connections of 0.09 GB/s */
    link_start(&link, 0, 0.28e6, 1e9, 2, 2);
    /* Fair is 0.5: the cap of 0.72 is above it, so both get half. */
    assert_int_equal(link_next_ns(&link), 560000);
    assert_int_equal(link_finish(&link, 560000), 2);
    link_init(&link, 1e9, flows, 2);
    link_start(&link, 0, 0.09e6, 0.09e9, 1, 1);
    link_start(&link, 0, 0.91e6, 1e9, 2, 2);
    /* 0.09 is below the fair half: it takes its cap, the other the remaining 0.91; both end at 1 ms, the older first. */
    assert_int_equal(link_next_ns(&link), 1000000);
    assert_int_equal(link_finish(&link, 1000000), 1);
    assert_int_equal(link_finish(&link, link_next_ns(&link)), 2);
}

/* Work is conserved: whatever the order of starts, the link is never faster than its rate nor idle with flows open. */
static void random_flows_conserve_work(void **state)
{
    (void)state;
    enum { FLOWS = 8, STARTS = 2000 };
    uint64_t random = test_seed(3);
    struct link_flow flows[FLOWS];
    struct link link;
    int64_t now_ns = 0;
    int64_t busy_from_ns = 0;
    double sent_bytes = 0;
    uint32_t started = 0;

    link_init(&link, 1e9, flows, FLOWS);
    while (started < STARTS || link.flows_count > 0) {
        int64_t next_ns = link_next_ns(&link);
        int64_t gap_ns = (int64_t)draw_below(&random, 2000);

        if (link.flows_count < FLOWS && started < STARTS && (next_ns == NEVER_NS || now_ns + gap_ns < next_ns)) {
            double bytes = (double)(1 + draw_below(&random, 5000));

            if (link.flows_count == 0) {
                busy_from_ns = now_ns + gap_ns;
                sent_bytes = 0;
            }
            now_ns += gap_ns;
            sent_bytes += bytes;
            link_start(&link, now_ns, bytes, 2e9, ++started, 0);
        } else {
            now_ns = next_ns;
            link_finish(&link, now_ns);
            if (link.flows_count == 0) {
                double busy_ns = (double)(now_ns - busy_from_ns);

                if (busy_ns < sent_bytes - 1 || busy_ns > sent_bytes + 2 * FLOWS + sent_bytes * 1e-3)
                    fail_msg("%g bytes took %g ns at 1 byte/ns", sent_bytes, busy_ns);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_flow_takes_bytes_over_rate),
        cmocka_unit_test(equal_flows_share_the_link),
        cmocka_unit_test(a_capped_flow_leaves_the_rest_to_others),
        cmocka_unit_test(random_flows_conserve_work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
