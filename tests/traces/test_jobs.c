/* What job traces say, our samples always and the real ones where they lie beside the checkout; and what bad ones are
 * told. Accidents are in test_mutations.c. */
#include "reader.h"
#include "support.h"

#include "jobs_survey.h"

#define SWF_ROW_1 "1 0 10 3600 4 -1 1024 4 7200 -1 1 7 1 3 2 -1 -1 -1\n"
#define SWF_ROW_2 "2 60 -1 -1 8 -1 -1 -1 -1 2048 5 -1 1 -1 -1 1 -1 -1\n"
#define SWF_NAMES "job submit wait run procs cpu mem rprocs rtime rmem status user group app queue part prec think\n"
#define GAVEL_7 "LM (batch size 10)\tpython3 main.py\t--steps\t1\t5000\t12.500000\t4\n"
#define GAVEL_10 "LM (batch size 10)\tpython3 main.py\t/jobs\t--steps\t1\t5000\t2\t1.0\t-1\t12.5\n"
#define OPENB "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
#define OPENB_ROW "pod-1,6000,1024,1,460,,LS,Running,100,400,150\n"
#define SIA "name,time,application,num_replicas,batch_size\n"

enum { ROWS_KEPT = 4 };

struct reading {
    enum status status;
    char message[TRACE_MESSAGE_MAX];
    struct trace_info info;
    struct job_row rows[ROWS_KEPT]; /* the first ones */
    struct job_row last;
    struct jobs_survey_result result;
};

static void read_rows(struct job_trace *trace, struct reading *reading)
{
    struct jobs_survey *survey = jobs_survey_create(job_trace_info(trace).has);
    struct job_row row;
    uint64_t count = 0;

    while ((reading->status = job_trace_next(trace, &row)) == STATUS_OK) {
        if (count < ROWS_KEPT)
            reading->rows[count] = row;
        reading->last = row;
        count++;
        jobs_survey_add(survey, &row);
    }
    assert_int_equal(job_trace_next(trace, &row), reading->status); /* an end is an end */
    reading->info = job_trace_info(trace);
    reading->result = jobs_survey_result(survey);
    assert_int_equal(reading->info.rows, count);
    assert_int_equal(reading->result.rows, count);
    memcpy(reading->message, job_trace_message(trace), TRACE_MESSAGE_MAX);
    jobs_survey_free(survey);
    job_trace_close(trace);
}

static struct reading read_text_with(const char *text, const char *format, const struct job_trace_options *options)
{
    struct reading reading = {0};
    struct job_trace *trace;

    reading.status = job_trace_open_bytes(text, strlen(text), format, options, &trace, reading.message);
    if (reading.status == STATUS_OK)
        read_rows(trace, &reading);
    return reading;
}

static struct reading read_text(const char *text, const char *format)
{
    return read_text_with(text, format, NULL);
}

static struct reading read_file(const char *path, const char *format)
{
    struct reading reading = {0};
    struct job_trace *trace;

    reading.status = job_trace_open(path, format, NULL, &trace, reading.message);
    if (reading.status == STATUS_OK)
        read_rows(trace, &reading);
    return reading;
}

/* The real file, or the test is skipped. */
static struct reading read_shared(const char *relative)
{
    const char *path = test_shared_path(relative);

    if (path == NULL) {
        print_message("%s is not there: skipped\n", relative);
        skip();
    }
    return read_file(path, NULL);
}

static void assert_good(const struct reading *reading, const char *format, uint64_t rows)
{
    if (reading->status != STATUS_END)
        fail_msg("%s", reading->message);
    assert_string_equal(reading->info.format, format);
    assert_int_equal(reading->info.rows, rows);
    for (size_t i = 0; i < TRACE_SKIP_COUNT; i++)
        if (i != TRACE_SKIP_PART)
            assert_int_equal(reading->info.skipped[i], 0);
}

/* Strictly it is refused with a message that begins so and has a remedy; leniently the line is counted. */
static void assert_refuses(const char *text, const char *format, const char *message, uint64_t rows_left,
                           enum trace_skip skip)
{
    const struct job_trace_options lenient = {.lenient = true};
    struct reading reading = read_text(text, format);

    assert_int_equal(reading.status, STATUS_CORRUPT);
    if (strncmp(reading.message, message, strlen(message)) != 0)
        fail_msg("said  \"%s\"\nwanted \"%s\"", reading.message, message);
    assert_non_null(strchr(reading.message, ';'));
    reading = read_text_with(text, format, &lenient);
    assert_int_equal(reading.info.rows, rows_left);
    assert_int_equal(reading.info.skipped[skip], 1);
    assert_int_equal(reading.status, rows_left > 0 ? STATUS_END : STATUS_CORRUPT);
}

/* --- SWF --- */

static void swf_gives_what_was_asked_and_what_happened(void **state)
{
    (void)state;
    struct reading reading = read_text("; Version: 2.2\n" SWF_ROW_1 SWF_ROW_2, NULL);

    assert_good(&reading, "swf", 2);
    assert_int_equal(reading.rows[0].at_ns, 0);
    assert_int_equal(reading.rows[0].runtime_ns, 3600 * NS_PER_S);
    assert_int_equal(reading.rows[0].requested_ns, 7200 * NS_PER_S);
    assert_int_equal(reading.rows[0].gpus, 4);
    assert_int_equal(reading.rows[0].memory_bytes, 4 * 1024 * 1024);
    assert_int_equal(reading.rows[0].status, JOB_ROW_DONE);
    assert_string_equal(reading.rows[0].user, "7");
    assert_string_equal(reading.rows[0].name, "3");
    assert_string_equal(reading.rows[0].queue, "2");
    assert_int_equal(reading.rows[0].line, 2);
    assert_int_equal(reading.rows[1].at_ns, 60 * NS_PER_S);
    assert_int_equal(reading.rows[1].runtime_ns, -1);
    assert_int_equal(reading.rows[1].requested_ns, -1);
    assert_int_equal(reading.rows[1].gpus, 8); /* it did not say, but got them */
    assert_int_equal(reading.rows[1].memory_bytes, 8 * 2048 * 1024);
    assert_int_equal(reading.rows[1].status, JOB_ROW_CANCELLED);
    assert_string_equal(reading.rows[1].user, "");
}

static void swf_is_known_without_its_comments(void **state)
{
    (void)state;
    struct reading reading = read_text(" \t" SWF_ROW_1, NULL);

    assert_good(&reading, "swf", 1);
}

static void swf_takes_floats_more_columns_names_and_blank_lines(void **state)
{
    (void)state;
    struct reading reading = read_text("\n; a comment\n" SWF_NAMES "\n"
                                       "1 0.5 1 10.25 2.0 9.99 -1.0 -1 -1 -1 1.0 3 -1 -1 -1 -1 -1 -1.00 extra 7 x\r\n"
                                       "\n; another\n" SWF_ROW_2, "swf");

    assert_good(&reading, "swf", 2);
    assert_int_equal(reading.rows[0].runtime_ns, 10250 * NS_PER_MS);
    assert_int_equal(reading.rows[0].gpus, 2);
    assert_int_equal(reading.rows[0].memory_bytes, 0);
    assert_int_equal(reading.rows[1].at_ns, 59500 * NS_PER_MS);
    assert_int_equal(reading.rows[1].line, 8);
}

static void swf_parts_of_a_job_are_counted_and_are_no_jobs(void **state)
{
    (void)state;
    struct reading reading = read_text(SWF_ROW_1 "1 -1 -1 100 4 -1 -1 -1 -1 -1 2 -1 -1 -1 -1 -1 -1 -1\n"
                                                 "1 -1 -1 200 4 -1 -1 -1 -1 -1 4 -1 -1 -1 -1 -1 -1 -1\n", NULL);

    assert_good(&reading, "swf", 1);
    assert_int_equal(reading.info.skipped[TRACE_SKIP_PART], 2);
}

static void swf_refusals_name_the_field(void **state)
{
    (void)state;

    assert_refuses("; c\n" SWF_ROW_1 "2 60 -1 -1 8\n", NULL, "bytes:3:13: 5 columns where the format has 18; ", 1,
                   TRACE_SKIP_COLUMNS);
    assert_refuses(SWF_ROW_2 SWF_ROW_1, NULL, "bytes:2:3: time goes back by 60.000000000 s from the row above; ", 1,
                   TRACE_SKIP_BACKWARD);
    assert_refuses("; c\n1 0 1 -2 4 -1 -1 4 -1 -1 1 7 1 3 2 -1 -1 -1\n" SWF_ROW_2, NULL,
                   "bytes:2:7: run time '-2' is negative; ", 1, TRACE_SKIP_AMOUNT);
    assert_refuses("; c\n1 -1 1 2 4 -1 -1 4 -1 -1 1 7 1 3 2 -1 -1 -1\n" SWF_ROW_2, NULL,
                   "bytes:2:3: submit time '-1' is negative; ", 1, TRACE_SKIP_TIME);
    assert_refuses("; c\n1 0 1 2 4 -1 -1 4.5 -1 -1 1 7 1 3 2 -1 -1 -1\n" SWF_ROW_2, NULL,
                   "bytes:2:17: requested processors '4.5' is not a whole number; ", 1, TRACE_SKIP_AMOUNT);
    assert_refuses("; c\n1 0 1 2 4 -1 -1 4 -1 -1 6 7 1 3 2 -1 -1 -1\n" SWF_ROW_2, NULL,
                   "bytes:2:25: status '6' is no status from -1 to 5; ", 1, TRACE_SKIP_SYNTAX);
    assert_refuses("; c\n1 0 1 2 4 -1 -1 4 -1 -1 1 bob 1 3 2 -1 -1 -1\n" SWF_ROW_2, NULL,
                   "bytes:2:27: user 'bob' is not a number; ", 1, TRACE_SKIP_SYNTAX);
    /* A line of names is fine above the rows only. */
    assert_refuses(SWF_ROW_1 SWF_NAMES SWF_ROW_2, NULL, "bytes:2:1: job number 'job' is not a number; ", 2,
                   TRACE_SKIP_SYNTAX);
    assert_refuses("name,time\n" SWF_ROW_2, "swf", "bytes:1:10: 1 column where the format has 18; ", 1,
                   TRACE_SKIP_COLUMNS);
}

static void a_log_of_comments_is_no_trace(void **state)
{
    (void)state;
    struct reading reading = read_text("; Version: 2.2\n;\n", NULL);

    assert_int_equal(reading.status, STATUS_CORRUPT);
    assert_non_null(strstr(reading.message, "no usable row; a trace without jobs says nothing"));
}

static void our_swf_sample_is_read(void **state)
{
    (void)state;
    struct reading reading = read_file("traces/samples/jobs-sample.swf", NULL);

    assert_good(&reading, "swf", 60);
    assert_int_equal(reading.info.skipped[TRACE_SKIP_PART], 2);
    assert_int_equal(reading.result.statuses[JOB_ROW_UNKNOWN], 6);
    assert_int_equal(reading.result.runtime_ms.count, 54);
}

static void the_real_hpc2n_log_agrees_with_what_is_known(void **state)
{
    (void)state;
    struct reading reading = read_shared("traces/swf/hpc2n.swf");

    assert_good(&reading, "swf", 3170);
    assert_int_equal(reading.result.statuses[JOB_ROW_DONE], 3145);
    assert_int_equal(reading.result.statuses[JOB_ROW_UNKNOWN], 25);
    assert_int_equal(reading.result.runtime_ms.count, 3145);
    assert_in_range((uint64_t)reading.result.runtime_ms.mean, 10128000, 10128999);
    assert_int_equal(reading.result.gpus.max, 128);
    assert_in_range((uint64_t)(reading.result.span_ns / NS_PER_S), 57 * 86400, 58 * 86400);
}

/* --- the others --- */

static void philly_has_run_times_and_no_arrivals(void **state)
{
    (void)state;
    struct reading reading = read_text("runtime\n0.0\n1.5\n", NULL);

    assert_good(&reading, "philly", 2);
    assert_int_equal(reading.info.has, JOB_HAS_RUNTIME);
    assert_int_equal(reading.rows[1].at_ns, 0);
    assert_int_equal(reading.rows[1].runtime_ns, 1500 * NS_PER_MS);
    assert_true(reading.result.rate_per_day == 0);
    assert_refuses("runtime\n-1\n2\n", NULL, "bytes:2:1: runtime '-1' is negative; ", 1, TRACE_SKIP_AMOUNT);
}

static void the_real_philly_run_times_agree_with_what_is_published(void **state)
{
    (void)state;
    struct reading reading = read_shared("traces/philly-runtimes/philly_runtime.csv");

    assert_good(&reading, "philly", 83154);
    assert_in_range((uint64_t)reading.result.runtime_ms.mean, 14613000, 14614000);
    assert_in_range((uint64_t)reading.result.runtime_ms.p50, 1186000 * 99 / 100, 1186000 * 101 / 100);
    assert_int_equal(reading.result.runtime_ms.max, 4628239000);
}

static void gavel_is_read_in_both_formats(void **state)
{
    (void)state;
    struct reading older = read_text(GAVEL_7 GAVEL_7, NULL);
    struct reading newer = read_text(GAVEL_10, NULL);

    assert_good(&older, "gavel", 2);
    assert_good(&newer, "gavel", 1);
    assert_int_equal(older.rows[0].gpus, 4);
    assert_int_equal(newer.rows[0].gpus, 2);
    assert_int_equal(older.rows[0].runtime_ns, -1);
    assert_string_equal(older.rows[0].queue, "LM (batch size 10)");
    assert_string_equal(newer.rows[0].queue, "LM (batch size 10)");
}

static void gavel_refusals_name_the_field(void **state)
{
    (void)state;

    assert_refuses(GAVEL_7 "LM\tx\t-s\t1\t5\t13\t0\n", NULL, "bytes:2:16: scale_factor '0' is no number of GPUs; ", 1,
                   TRACE_SKIP_AMOUNT);
    assert_refuses(GAVEL_7 "LM\tx\t-s\t1\t5\t3\t1\n", NULL, "bytes:2:13: time goes back by 9.500000000 s", 1,
                   TRACE_SKIP_BACKWARD);
    assert_refuses(GAVEL_7 GAVEL_10, NULL, "bytes:2:59: 10 columns where the format has 7; ", 1, TRACE_SKIP_COLUMNS);
    assert_int_equal(read_text("a\tb\tc\n", "gavel").status, STATUS_CORRUPT);
}

static void our_gavel_samples_are_read(void **state)
{
    (void)state;
    struct reading older = read_file("traces/samples/jobs-gavel-7-sample.trace", NULL);
    struct reading newer = read_file("traces/samples/jobs-gavel-10-sample.trace", NULL);

    assert_good(&older, "gavel", 60);
    assert_good(&newer, "gavel", 60);
    assert_int_equal(older.result.queues.distinct, 3);
}

static void the_real_gavel_arrivals_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t rows;
        int64_t gpus_max;
        int64_t span_s;
    } files[] = {{"0e4a51", 1181, 8, 7363956}, {"23dbec", 9, 8, 188011}, {"2869ce", 533, 32, 8141054},
                 {"e13805", 607, 24, 8468723}};

    for (size_t i = 0; i < ARRAY_COUNT(files); i++) {
        char path[64];
        struct reading reading;

        snprintf(path, sizeof(path), "traces/gavel-philly/%s.trace", files[i].name);
        reading = read_shared(path);
        assert_good(&reading, "gavel", files[i].rows);
        assert_int_equal(reading.result.gpus.max, files[i].gpus_max);
        assert_int_equal(reading.result.span_ns, files[i].span_s * NS_PER_S);
    }
}

static void openb_tells_shares_and_pods_that_never_ran(void **state)
{
    (void)state;
    struct reading reading = read_text(OPENB OPENB_ROW "pod-2,1,2048,0,0,x|y,BE,Pending,101,401,\n"
                                                       "pod-3,1,1,8,1000,,BE,Succeeded,102,402,102\n", NULL);

    assert_good(&reading, "openb", 3);
    assert_int_equal(reading.rows[0].gpus, 0);
    assert_int_equal(reading.rows[0].gpu_milli, 460);
    assert_int_equal(reading.rows[0].runtime_ns, 250 * NS_PER_S);
    assert_int_equal(reading.rows[0].memory_bytes, UINT64_C(1) << 30);
    assert_int_equal(reading.rows[0].status, JOB_ROW_RUNNING);
    assert_string_equal(reading.rows[0].name, "pod-1");
    assert_string_equal(reading.rows[0].queue, "LS");
    assert_int_equal(reading.rows[1].gpus + reading.rows[1].gpu_milli, 0);
    assert_int_equal(reading.rows[1].runtime_ns, -1);
    assert_int_equal(reading.rows[1].status, JOB_ROW_CANCELLED);
    assert_int_equal(reading.rows[2].gpus, 8);
    assert_int_equal(reading.rows[2].gpu_milli, 0);
    assert_int_equal(reading.result.shares, 1);
    assert_int_equal(reading.result.without_gpu, 1);
    assert_true(reading.result.gpu_hours > (250 * 0.46 + 300 * 8) / 3600 - 1e-9);
    assert_true(reading.result.gpu_hours < (250 * 0.46 + 300 * 8) / 3600 + 1e-9);
}

static void openb_refuses_what_cannot_be(void **state)
{
    (void)state;

    assert_refuses(OPENB OPENB_ROW "p,1,1,1,1000,,LS,Running,100,99,100\n", NULL,
                   "bytes:3:30: deletion_time '99' is before the creation; ", 1, TRACE_SKIP_TIME);
    assert_refuses(OPENB OPENB_ROW "p,1,1,1,1000,,LS,Running,100,200,201\n", NULL,
                   "bytes:3:34: scheduled_time '201' is not between creation and deletion; ", 1, TRACE_SKIP_TIME);
    assert_refuses(OPENB OPENB_ROW "p,1,1,2,460,,LS,Running,100,200,100\n", NULL,
                   "bytes:3:9: gpu_milli '460' does not go with the number of GPUs; ", 1, TRACE_SKIP_AMOUNT);
    assert_refuses(OPENB OPENB_ROW "p,1,1,1,1000,,LS,Asleep,100,200,100\n", NULL,
                   "bytes:3:18: pod_phase 'Asleep' is no phase of a pod; ", 1, TRACE_SKIP_SYNTAX);
    /* Cut behind the last comma: nobody knows whether it was scheduled. */
    assert_refuses(OPENB OPENB_ROW "p,1,1,1,1000,,LS,Running,100,200,", NULL,
                   "bytes:3:34: scheduled_time '' is empty, and the file ends without a newline: it was cut; ", 1,
                   TRACE_SKIP_CUT);
}

static void the_real_openb_pods_agree_with_what_is_published(void **state)
{
    (void)state;
    struct reading reading = read_shared("traces/alibaba-2023-openb/openb_pod_list_default.csv");

    assert_good(&reading, "openb", 8152);
    assert_int_equal(reading.result.shares, 3078);
    assert_int_equal(reading.result.without_gpu, 8152 - 7064);
    assert_int_equal(reading.result.statuses[JOB_ROW_RUNNING], 5193);
    assert_int_equal(reading.result.statuses[JOB_ROW_FAILED], 1870);
    assert_int_equal(reading.result.statuses[JOB_ROW_CANCELLED], 897);
    assert_int_equal(reading.result.statuses[JOB_ROW_DONE], 192);
}

static void sia_gives_arrivals_and_sizes(void **state)
{
    (void)state;
    struct reading reading = read_text(SIA "bert-1,10.25,bert,8,320\ncifar10-2,11,cifar10,1,128\n", NULL);

    assert_good(&reading, "sia", 2);
    assert_int_equal(reading.rows[0].gpus, 8);
    assert_int_equal(reading.rows[1].at_ns, 750 * NS_PER_MS);
    assert_string_equal(reading.rows[0].name, "bert-1");
    assert_string_equal(reading.rows[0].queue, "bert");
    assert_refuses(SIA "a,1,b,1,1\na,1,b,0,1\n", NULL, "bytes:3:7: num_replicas '0' is no number of GPUs; ", 1,
                   TRACE_SKIP_AMOUNT);
}

static void the_real_sia_samples_are_read(void **state)
{
    (void)state;
    struct reading larger = read_shared("traces/sia/newtrace-1.csv");
    struct reading smaller = read_shared("traces/sia/philly-1.csv");

    assert_good(&larger, "sia", 960);
    assert_good(&smaller, "sia", 160);
    assert_int_equal(larger.result.queues.distinct, 5);
    assert_int_equal(smaller.result.gpus.max, 16);
}

static const struct job_columns generic = {"submitted", "lasted_s", "limit_s", "gpus", "bytes", "outcome", "who", "what",
                                           "class", TRACE_TIME_DATETIME};

static void any_csv_is_read_by_the_callers_columns(void **state)
{
    (void)state;
    const struct job_trace_options options = {.columns = &generic};
    struct reading reading = {0};
    struct job_trace *trace;

    reading.status = job_trace_open("traces/samples/jobs-generic-sample.csv", NULL, &options, &trace, reading.message);
    assert_int_equal(reading.status, STATUS_OK);
    read_rows(trace, &reading);
    assert_good(&reading, "csv", 60);
    assert_int_equal(reading.rows[0].gpu_milli, 500);
    assert_int_equal(reading.rows[1].gpus, 4);
    assert_int_equal(reading.rows[0].requested_ns, 3600 * NS_PER_S);
    assert_int_equal(reading.rows[0].memory_bytes, UINT64_C(1) << 30);
    assert_string_equal(reading.rows[0].name, "tune, 0");
    assert_string_equal(reading.rows[0].queue, "night");
    assert_int_equal(reading.result.runtime_ms.count, 50); /* each sixth does not say */
    assert_true(reading.result.statuses[JOB_ROW_DONE] > 0);
    assert_true(reading.result.statuses[JOB_ROW_UNKNOWN] > 0);
}

static void csv_without_a_header_or_without_times(void **state)
{
    (void)state;
    static const struct job_columns numbers = {.time = "1", .runtime = "2", .gpus = "3", .time_unit = TRACE_TIME_MS};
    static const struct job_columns runtimes = {.runtime = "s"};
    const struct job_trace_options headerless = {.columns = &numbers};
    const struct job_trace_options timeless = {.columns = &runtimes};
    struct reading reading = read_text_with("1000,500,1\n3000,,2\n", NULL, &headerless);

    assert_good(&reading, "csv", 2);
    assert_int_equal(reading.rows[0].runtime_ns, 500 * NS_PER_MS);
    assert_int_equal(reading.rows[1].at_ns, 2 * NS_PER_S);
    assert_int_equal(reading.rows[1].runtime_ns, -1);
    reading = read_text_with("id,s\n1,2\n2,3\n", NULL, &timeless);
    assert_good(&reading, "csv", 2);
    assert_int_equal(reading.info.has, JOB_HAS_RUNTIME);
    assert_int_equal(reading.last.runtime_ns, 3 * NS_PER_S);
}

static void csv_refuses_odd_gpus_and_missing_columns(void **state)
{
    (void)state;
    static const struct job_columns columns = {.time = "t", .gpus = "g"};
    static const struct job_columns absent = {.time = "t", .gpus = "cards"};
    const struct job_trace_options options = {.columns = &columns};
    const struct job_trace_options wrong = {.columns = &absent};
    struct reading reading = read_text_with("t,g\n1,1.5\n", NULL, &options);

    assert_int_equal(reading.status, STATUS_CORRUPT);
    assert_non_null(strstr(reading.message, "bytes:2:3: g '1.5' is neither whole nor less than one GPU; "));
    reading = read_text_with("t,g\n1,1\n", NULL, &wrong);
    assert_int_equal(reading.status, STATUS_CORRUPT);
    assert_non_null(strstr(reading.message, "no column 'cards' for the GPUs among the 2 here; "));
    assert_int_equal(read_text("t,g\n1,1\n", "csv").status, STATUS_INVALID);
}

/* --- formats among each other --- */

static void jobs_and_requests_are_not_taken_for_each_other(void **state)
{
    (void)state;
    struct reading reading = read_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-01-01 00:00:00,1,1\n", NULL);
    char message[TRACE_MESSAGE_MAX];
    struct trace *requests;
    struct job_trace *jobs;

    assert_int_equal(reading.status, STATUS_CORRUPT);
    assert_int_equal(trace_open("traces/samples/jobs-sample.swf", NULL, NULL, &requests, message), STATUS_CORRUPT);
    assert_int_equal(trace_open("traces/samples/jobs-sample.swf", "swf", NULL, &requests, message), STATUS_NOT_FOUND);
    assert_non_null(strstr(message, "'swf' is no trace format; they are azure, "));
    assert_int_equal(job_trace_open("traces/samples/jobs-sample.swf", "azure", NULL, &jobs, message), STATUS_NOT_FOUND);
    assert_non_null(strstr(message, "'azure' is no trace format; they are swf, philly, gavel, openb, sia, csv"));
}

static void either_kind_is_told_by_the_first_line(void **state)
{
    (void)state;
    char message[TRACE_MESSAGE_MAX];
    struct trace *requests;
    struct job_trace *jobs;

    assert_int_equal(trace_open_either("traces/samples/jobs-sia-sample.csv", NULL, NULL, &requests, &jobs, message), STATUS_OK);
    assert_null(requests);
    assert_string_equal(job_trace_info(jobs).format, "sia");
    job_trace_close(jobs);
    assert_int_equal(trace_open_either("traces/samples/azure-small.csv", NULL, NULL, &requests, &jobs, message), STATUS_OK);
    assert_null(jobs);
    assert_string_equal(trace_info(requests).format, "azure");
    trace_close(requests);
}

static void names_of_job_formats_go_in_order(void **state)
{
    (void)state;
    static const char *const names[] = {"swf", "philly", "gavel", "openb", "sia", "csv"};
    const char *name;
    const char *about;

    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        assert_true(job_trace_format_at(i, &name, &about));
        assert_string_equal(name, names[i]);
    }
    assert_false(job_trace_format_at(ARRAY_COUNT(names), &name, &about));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(swf_gives_what_was_asked_and_what_happened),
        cmocka_unit_test(swf_is_known_without_its_comments),
        cmocka_unit_test(swf_takes_floats_more_columns_names_and_blank_lines),
        cmocka_unit_test(swf_parts_of_a_job_are_counted_and_are_no_jobs),
        cmocka_unit_test(swf_refusals_name_the_field),
        cmocka_unit_test(a_log_of_comments_is_no_trace),
        cmocka_unit_test(our_swf_sample_is_read),
        cmocka_unit_test(the_real_hpc2n_log_agrees_with_what_is_known),
        cmocka_unit_test(philly_has_run_times_and_no_arrivals),
        cmocka_unit_test(the_real_philly_run_times_agree_with_what_is_published),
        cmocka_unit_test(gavel_is_read_in_both_formats),
        cmocka_unit_test(gavel_refusals_name_the_field),
        cmocka_unit_test(our_gavel_samples_are_read),
        cmocka_unit_test(the_real_gavel_arrivals_are_read),
        cmocka_unit_test(openb_tells_shares_and_pods_that_never_ran),
        cmocka_unit_test(openb_refuses_what_cannot_be),
        cmocka_unit_test(the_real_openb_pods_agree_with_what_is_published),
        cmocka_unit_test(sia_gives_arrivals_and_sizes),
        cmocka_unit_test(the_real_sia_samples_are_read),
        cmocka_unit_test(any_csv_is_read_by_the_callers_columns),
        cmocka_unit_test(csv_without_a_header_or_without_times),
        cmocka_unit_test(csv_refuses_odd_gpus_and_missing_columns),
        cmocka_unit_test(jobs_and_requests_are_not_taken_for_each_other),
        cmocka_unit_test(either_kind_is_told_by_the_first_line),
        cmocka_unit_test(names_of_job_formats_go_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
