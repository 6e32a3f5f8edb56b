/* The text that Prometheus reads, to the letter. */
#include "host/exposition.h"
#include "support.h"

static void samples_are_lines_with_escaped_labels(void **context)
{
    const struct exposition_label labels[] = {{"route", "/v1/\"a\\b\"\n"}, {"status", "2xx"}, {NULL, NULL}};
    struct exposition exposition = {0};

    (void)context;
    exposition_family(&exposition, "berth_x_total", "counter", "What x is.");
    exposition_sample(&exposition, "berth_x_total", "", labels, 12345678901234.0);
    exposition_sample(&exposition, "berth_x_total", "", NULL, 0.25);
    exposition_sample(&exposition, "berth_x_total", "", NULL, -3);
    assert_string_equal(exposition.text, "# HELP berth_x_total What x is.\n# TYPE berth_x_total counter\n"
                                         "berth_x_total{route=\"/v1/\\\"a\\\\b\\\"\\n\",status=\"2xx\"} 12345678901234\n"
                                         "berth_x_total 0.25\nberth_x_total -3\n");
    assert_int_equal(exposition.count, strlen(exposition.text));
    exposition_free(&exposition);
}

static void histograms_add_up(void **context)
{
    const double bounds[] = {0.001, 0.5};
    const uint64_t counts[] = {2, 0, 3};
    const struct exposition_label labels[] = {{"a", "b"}, {NULL, NULL}};
    struct exposition exposition = {0};

    (void)context;
    exposition_histogram(&exposition, "h", labels, bounds, counts, 2, 7.5);
    exposition_histogram(&exposition, "h", NULL, bounds, counts, 0, 0);
    assert_string_equal(exposition.text, "h_bucket{a=\"b\",le=\"0.001\"} 2\nh_bucket{a=\"b\",le=\"0.5\"} 2\nh_bucket{a=\"b\",le=\"+Inf\"} 5\n"
                                         "h_sum{a=\"b\"} 7.5\nh_count{a=\"b\"} 5\n"
                                         "h_bucket{le=\"+Inf\"} 2\nh_sum 0\nh_count 2\n");
    exposition_free(&exposition);
}

static void a_text_beyond_its_bound_says_that_it_is_not_whole(void **context)
{
    struct exposition exposition = {0};

    (void)context;
    while (!exposition.failed) {
        exposition_sample(&exposition, "berth_a_metric_with_a_long_name_so_that_this_ends_soon", "", NULL, 1);
        assert_true(exposition.size <= EXPOSITION_BYTES_MAX);
    }
    assert_true(exposition.count > EXPOSITION_BYTES_MAX / 4);
    exposition_free(&exposition);
}

static void say_a_bad_name(void *context)
{
    exposition_sample(context, "1berth-x", "", NULL, 1);
}

static void names_are_checked(void **context)
{
    struct exposition exposition = {0};

    (void)context;
    assert_true(check_stops(say_a_bad_name, &exposition));
    exposition_free(&exposition);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_lines_with_escaped_labels),
        cmocka_unit_test(histograms_add_up),
        cmocka_unit_test(a_text_beyond_its_bound_says_that_it_is_not_whole),
        cmocka_unit_test(names_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
