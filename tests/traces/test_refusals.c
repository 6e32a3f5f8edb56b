/* What bad traces are told: the place, what is wrong and what to do; and what lenient counts instead. */
#include "reading.h"
#include "support.h"

#include <stdlib.h>
#include <unistd.h>

#define AZURE "TIMESTAMP,ContextTokens,GeneratedTokens\n"
#define ROW_1 "2023-11-16 18:15:46.6805900,374,44\n"
#define ROW_2 "2023-11-16 18:15:50.9951690,396,109\n"
#define MOON_1 "{\"timestamp\": 0, \"input_length\": 10, \"output_length\": 5, \"hash_ids\": [0, 1]}\n"

/* The message begins with `message`, has a remedy, and no byte that could move a cursor. */
static void assert_says(const struct reading *reading, const char *message)
{
    if (strncmp(reading->message, message, strlen(message)) != 0)
        fail_msg("said  \"%s\"\nwanted \"%s\"", reading->message, message);
    assert_non_null(strchr(reading->message, ';'));
    for (const char *at = reading->message; *at != 0; at++)
        assert_true((unsigned char)*at >= 0x20 && *at != 0x7f);
}

static void assert_refuses_bytes(const void *bytes, size_t count, const char *format, const char *message)
{
    struct reading reading = read_bytes(bytes, count, format, NULL);

    assert_int_equal(reading.status, STATUS_CORRUPT);
    assert_says(&reading, message);
}

static void assert_refuses(const char *text, const char *format, const char *message)
{
    assert_refuses_bytes(text, strlen(text), format, message);
}

/* Leniently: `rows` rows, and one line counted as `skip`. */
static void assert_skips_bytes(const void *bytes, size_t count, const char *format, uint64_t rows, enum trace_skip skip)
{
    const struct trace_options options = {.lenient = true};
    struct reading reading = read_bytes(bytes, count, format, &options);

    if (reading.status != STATUS_END)
        fail_msg("%s", reading.message);
    assert_int_equal(reading.info.rows, rows);
    for (size_t i = 0; i < TRACE_SKIP_COUNT; i++)
        assert_int_equal(reading.info.skipped[i], i == skip);
}

static void assert_skips(const char *text, uint64_t rows, enum trace_skip skip)
{
    assert_skips_bytes(text, strlen(text), NULL, rows, skip);
}

static void a_time_before_the_row_above(void **state)
{
    (void)state;
    const char *text = AZURE ROW_2 ROW_1 ROW_2;

    assert_refuses(text, NULL, "bytes:3:1: time goes back by 4.314579000 s from the row above; sort the file by time");
    assert_skips(text, 2, TRACE_SKIP_BACKWARD);
}

static void a_time_slightly_back_is_kept_and_counted_when_tolerated(void **state)
{
    (void)state;
    const char *text = AZURE "2024-01-01 00:00:01,1,1\n2024-01-01 00:00:00.5,2,2\n"
                             "2024-01-01 00:00:00.4,3,3\n2024-01-01 00:00:02,4,4\n";
    const struct trace_options tolerant = {.lenient = true, .backward_tolerance_ns = NS_PER_S / 2};
    const struct trace_options strict = {.lenient = false, .backward_tolerance_ns = NS_PER_S / 2};
    struct reading reading = read_bytes(text, strlen(text), NULL, &tolerant);

    assert_int_equal(reading.status, STATUS_END);
    assert_int_equal(reading.info.rows, 3);
    assert_int_equal(reading.prompt_sum, 1 + 2 + 4);
    assert_int_equal(reading.info.skipped[TRACE_SKIP_CLAMPED], 1);
    assert_int_equal(reading.info.skipped[TRACE_SKIP_BACKWARD], 1);
    assert_int_equal(reading.last.at_ns, NS_PER_S);
    assert_int_equal(read_bytes(text, strlen(text), NULL, &strict).status, STATUS_CORRUPT);
}

static void a_negative_length(void **state)
{
    (void)state;
    const char *text = AZURE ROW_1 "2023-11-16 18:15:47,-5,44\n" ROW_2;

    assert_refuses(text, NULL, "bytes:3:21: ContextTokens '-5' is negative; correct the line");
    assert_skips(text, 2, TRACE_SKIP_LENGTH);
}

static void an_absurd_length(void **state)
{
    (void)state;
    const char *text = AZURE ROW_1 "2023-11-16 18:15:47,374,10000001\n" ROW_2;

    assert_refuses(text, NULL, "bytes:3:25: GeneratedTokens '10000001' is absurdly large");
    assert_refuses(AZURE "2023-11-16 18:15:47,99999999999999999999999999999,1\n", NULL,
                   "bytes:2:21: ContextTokens '99999999999999999999999999999' is absurdly large");
    assert_skips(text, 2, TRACE_SKIP_LENGTH);
    assert_int_equal(read_text(AZURE "2023-11-16 18:15:47,10000000,1\n", NULL).status, STATUS_END);
}

static void a_length_of_zero(void **state)
{
    (void)state;
    assert_refuses(AZURE "2023-11-16 18:15:47,0,44\n", NULL, "bytes:2:21: ContextTokens '0' is no length of a request");
    assert_refuses("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n1,a,0,5,5,b\n", NULL,
                   "bytes:2:5: Request tokens '0' is no length of a request");
}

static void a_length_that_is_no_number(void **state)
{
    (void)state;
    const char *text = AZURE ROW_1 "2023-11-16 18:15:47,many,44\n" ROW_2;

    assert_refuses(text, NULL, "bytes:3:21: ContextTokens 'many' is not a number");
    assert_refuses(AZURE "2023-11-16 18:15:47,3.5,44\n", NULL, "bytes:2:21: ContextTokens '3.5' is not a whole number");
    assert_refuses(AZURE "2023-11-16 18:15:47,,44\n", NULL, "bytes:2:21: ContextTokens '' is empty");
    assert_refuses(AZURE "2023-11-16 18:15:47,nan,44\n", NULL, "bytes:2:21: ContextTokens 'nan' is not a number");
    assert_refuses(AZURE "2023-11-16 18:15:47, 3,44\n", NULL, "bytes:2:21: ContextTokens ' 3' is not a number");
    assert_skips(text, 2, TRACE_SKIP_LENGTH);
}

static void a_time_that_cannot_be_read(void **state)
{
    (void)state;
    const char *text = AZURE ROW_1 "16.11.2023 18:15,374,44\n" ROW_2;

    assert_refuses(text, NULL, "bytes:3:1: TIMESTAMP '16.11.2023 18:15' is not a YYYY-MM-DD HH:MM:SS");
    assert_refuses(AZURE "2023-02-29 18:15:46,1,1\n", NULL,
                   "bytes:2:1: TIMESTAMP '2023-02-29 18:15:46' is a day that does not exist");
    assert_refuses(AZURE "2023-11-16 18:15:46+02:00,1,1\n", NULL,
                   "bytes:2:1: TIMESTAMP '2023-11-16 18:15:46+02:00' is not in UTC");
    assert_skips(text, 2, TRACE_SKIP_TIME);
}

static void a_missing_column_of_the_header(void **state)
{
    (void)state;
    assert_refuses("TIMESTAMP,ContextTokens\n2023-11-16 18:15:46,1\n", "azure",
                   "bytes:1:24: the header has no column 'GeneratedTokens', which the azure format has; ");
}

static void an_extra_column_of_the_header(void **state)
{
    (void)state;
    assert_refuses("TIMESTAMP,ContextTokens,GeneratedTokens,Model\n2023-11-16 18:15:46,1,1,a\n", "azure",
                   "bytes:1:41: 'Model' is no column of the azure format; ");
}

static void too_few_cells_in_a_row(void **state)
{
    (void)state;
    const char *text = AZURE ROW_1 "2023-11-16 18:15:47,374\n" ROW_2;

    assert_refuses(text, NULL, "bytes:3:24: 2 columns where the header has 3; ");
    assert_skips(text, 2, TRACE_SKIP_COLUMNS);
}

static void too_many_cells_in_a_row(void **state)
{
    (void)state;
    const char *text = AZURE ROW_1 "2023-11-16 18:15:47,374,44,\n" ROW_2;

    assert_refuses(text, NULL, "bytes:3:28: 4 columns where the header has 3; ");
    assert_skips(text, 2, TRACE_SKIP_COLUMNS);
}

static void two_columns_of_one_name(void **state)
{
    (void)state;
    const struct trace_columns columns = {.time = "t"};
    const struct trace_options options = {.columns = &columns};
    const char *text = "t,x,x\n1,2,3\n";
    struct reading reading = read_bytes(text, strlen(text), "csv", &options);

    assert_int_equal(reading.status, STATUS_CORRUPT);
    assert_says(&reading, "bytes:1:5: two columns are named 'x'; rename one of them");
    assert_refuses("TIMESTAMP,ContextTokens,TIMESTAMP,GeneratedTokens\n", NULL,
                   "bytes:1:25: two columns are named 'TIMESTAMP'; ");
}

static void a_byte_order_mark(void **state)
{
    (void)state;
    const char *text = "\xef\xbb\xbf" AZURE ROW_1 ROW_2;

    assert_refuses(text, NULL, "bytes:1:1: a byte order mark begins the file; remove its 3 bytes");
    assert_skips(text, 2, TRACE_SKIP_MARK);
}

static void utf_16(void **state)
{
    (void)state;
    assert_refuses_bytes("\xff\xfeT\0I\0\n\0", 8, NULL, "bytes:1:1: the file is UTF-16; convert it");
}

static void a_blank_line(void **state)
{
    (void)state;
    assert_refuses(AZURE ROW_1 "\r\n" ROW_2, NULL, "bytes:3:1: a blank line; ");
    assert_refuses("\n" AZURE ROW_1, NULL, "bytes:1:1: a blank line; ");
    assert_refuses(AZURE ROW_1 " \t \n", NULL, "bytes:3:1: a blank line; ");
    assert_skips(AZURE ROW_1 "\r\n" ROW_2, 2, TRACE_SKIP_BLANK);
    assert_skips("\n" AZURE ROW_1, 1, TRACE_SKIP_BLANK);
}

static void a_last_line_cut_short(void **state)
{
    (void)state;
    assert_refuses(AZURE ROW_1 "2023-11-16 18:1", NULL,
                   "bytes:3:16: 1 column where the header has 3, and the file ends without a newline: it was cut; fetch it again");
    assert_refuses(AZURE ROW_1 "2023-11-16 18:15:50,374,", NULL,
                   "bytes:3:25: GeneratedTokens '' is empty, and the file ends without a newline: it was cut; ");
    assert_refuses(MOON_1 "{\"timestamp\": 3000, \"input_le", NULL,
                   "bytes:2:30: a string that does not close, and the file ends without a newline: it was cut; ");
    assert_skips(AZURE ROW_1 "2023-11-16 18:1", 1, TRACE_SKIP_CUT);
    assert_skips(AZURE ROW_1 "2023-11-16 18:15:50,374,", 1, TRACE_SKIP_CUT);
    assert_skips(MOON_1 "{\"timestamp\": 3000, \"input_le", 1, TRACE_SKIP_CUT);
}

static void a_missing_final_newline_is_normal(void **state)
{
    (void)state;
    assert_int_equal(read_text(AZURE ROW_1 "2023-11-16 18:15:50,374,1", NULL).info.rows, 2);
    assert_int_equal(read_text(AZURE ROW_1 "2023-11-16 18:15:50,374,1", NULL).status, STATUS_END);
}

static void a_nul_byte(void **state)
{
    (void)state;
    static const char text[] = AZURE ROW_1 "2023-11-16 18:15:47,3\0004,44\n" ROW_2;
    static const char header[] = "TIME\0STAMP,ContextTokens\n";

    assert_refuses_bytes(text, sizeof(text) - 1, NULL, "bytes:3:22: a NUL byte; ");
    assert_refuses_bytes(header, sizeof(header) - 1, NULL, "bytes:1:5: a NUL byte; ");
    assert_skips_bytes(text, sizeof(text) - 1, NULL, 2, TRACE_SKIP_SYNTAX);
}

static void a_line_longer_than_a_mebibyte(void **state)
{
    (void)state;
    enum { LONG = LINE_BYTES_MAX + 100000 };
    const char *head = AZURE ROW_1;
    const char *tail = "\n" ROW_2;
    size_t count = strlen(head) + LONG + strlen(tail);
    char *text = malloc(count + 1);

    memcpy(text, head, strlen(head));
    memset(text + strlen(head), 'x', LONG);
    memcpy(text + strlen(head) + LONG, tail, strlen(tail));
    assert_refuses_bytes(text, count, NULL, "bytes:3:1048577: the line is longer than 1 MiB; ");
    assert_skips_bytes(text, count, NULL, 2, TRACE_SKIP_SYNTAX);
    assert_refuses_bytes(text + strlen(head), LONG, NULL, "bytes:1:1048577: the line is longer than 1 MiB; ");
    free(text);
}

static void a_line_of_a_mebibyte_is_read(void **state)
{
    (void)state;
    const char *head = "{\"timestamp\": 0, \"input_length\": 10, \"output_length\": 5, \"hash_ids\": [";
    const char *tail = "1]}";
    char *text = malloc(LINE_BYTES_MAX + 2);
    size_t at = strlen(head);

    memcpy(text, head, at);
    memset(text + at, ' ', LINE_BYTES_MAX - at - strlen(tail));
    memcpy(text + LINE_BYTES_MAX - strlen(tail), tail, strlen(tail));
    memcpy(text + LINE_BYTES_MAX, "\r\n", 2);
    assert_int_equal(read_bytes(text, LINE_BYTES_MAX + 2, NULL, NULL).info.rows, 1);
    assert_int_equal(read_bytes(text, LINE_BYTES_MAX, NULL, NULL).info.rows, 1);
    text[LINE_BYTES_MAX] = ' ';
    assert_refuses_bytes(text, LINE_BYTES_MAX + 2, NULL, "bytes:1:1048577: the line is longer than 1 MiB; ");
    free(text);
}

static void an_empty_file(void **state)
{
    (void)state;
    assert_refuses("", NULL, "bytes:1:1: the file is empty; ");
    assert_int_equal(read_text_leniently("", NULL).status, STATUS_CORRUPT);
    assert_int_equal(read_text_leniently("\n\n", NULL).status, STATUS_CORRUPT);
}

static void a_header_and_no_row(void **state)
{
    (void)state;
    assert_refuses(AZURE, NULL, "bytes:1:1: no usable row; ");
    assert_refuses("TIMESTAMP,ContextTokens,GeneratedTokens", NULL, "bytes:1:1: no usable row; ");
    assert_int_equal(read_text_leniently(AZURE "x,y,z\n", NULL).status, STATUS_CORRUPT);
}

static void a_first_line_of_no_format(void **state)
{
    (void)state;
    assert_refuses("when,how much\n1,2\n", NULL,
                   "bytes:1:1: 'when,how much' begins no trace format known here; name the format");
    assert_refuses("\x1b[31mred\x07\n", NULL, "bytes:1:1: '\\x1b[31mred\\x07' begins no trace format");
}

static void a_wrong_format_is_told_the_right_one(void **state)
{
    (void)state;
    assert_refuses("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n1,a,1,5,6,b\n", "azure",
                   "bytes:1:1: 'Timestamp' is no column of the azure format (it looks like the burstgpt format); ");
    assert_refuses(MOON_1, "azure",
                   "bytes:1:2: a quote inside a cell that does not begin with one in the header "
                   "(it looks like the mooncake format); ");
    assert_refuses(AZURE ROW_1, "mooncake", "bytes:1:1: no JSON object; ");
}

static void an_unknown_format(void **state)
{
    (void)state;
    struct reading reading = read_text(AZURE ROW_1, "azur");

    assert_int_equal(reading.status, STATUS_NOT_FOUND);
    assert_says(&reading, "bytes: 'azur' is no trace format; they are azure, burstgpt, mooncake, alibaba-lora, csv");
}

static void a_quote_that_does_not_close(void **state)
{
    (void)state;
    const char *text = AZURE ROW_1 "\"2023-11-16 18:15:47,374,44\n" ROW_2;

    assert_refuses(text, NULL, "bytes:3:1: a quote that does not close on its line; ");
    assert_skips(text, 2, TRACE_SKIP_SYNTAX);
    assert_refuses(AZURE "2023-11-16 18:15:47,\"374\"5,44\n", NULL, "bytes:2:26: text behind a closing quote; ");
    assert_refuses(AZURE "2023-11-16 18:15:47,3\"74\",44\n", NULL,
                   "bytes:2:22: a quote inside a cell that does not begin with one; ");
}

static void control_bytes_of_a_file_do_not_reach_the_message(void **state)
{
    (void)state;
    assert_refuses(AZURE "\x1b]0;title\x07\xc3\xa4,1,1\n", NULL,
                   "bytes:2:1: TIMESTAMP '\\x1b]0;title\\x07\\xc3\\xa4' is not");
}

static void a_path_with_control_bytes_does_not_reach_the_message(void **state)
{
    (void)state;
    struct reading reading = read_file("no\x1b[2Jsuch\nfile", NULL, NULL);

    assert_int_equal(reading.status, STATUS_IO);
    assert_says(&reading, "no?[2Jsuch?file: cannot open: No such file or directory; check the path");
}

static void a_directory(void **state)
{
    (void)state;
    struct reading reading = read_file("traces", NULL, NULL);

    assert_int_equal(reading.status, STATUS_IO);
    assert_non_null(strstr(reading.message, "traces: cannot read: Is a directory"));
}

/* --- JSON lines --- */

static void a_json_line_that_is_no_object(void **state)
{
    (void)state;
    const char *text = MOON_1 "[1, 2]\n" MOON_1;

    assert_refuses(text, NULL, "bytes:2:1: no JSON object; ");
    assert_skips(text, 2, TRACE_SKIP_SYNTAX);
    assert_refuses(MOON_1 "{\"timestamp\": 0} {}\n", NULL, "bytes:2:18: text behind the object; ");
}

static void a_json_line_without_a_key(void **state)
{
    (void)state;
    const char *text = MOON_1 "{\"timestamp\": 1, \"output_length\": 5}\n" MOON_1;

    assert_refuses(text, NULL, "bytes:2:1: the object has no \"input_length\"; ");
    assert_refuses(MOON_1 "{\"timestamp\": 1, \"timestamp\": 2}\n", NULL,
                   "bytes:2:29: a key that stands there twice; ");
    assert_int_equal(read_text_leniently(text, NULL).info.skipped[TRACE_SKIP_COLUMNS], 1);
}

static void a_json_value_of_the_wrong_type(void **state)
{
    (void)state;
    assert_refuses(MOON_1 "{\"timestamp\": \"1\", \"input_length\": 1, \"output_length\": 5}\n", NULL,
                   "bytes:2:15: \"timestamp\" \"1\" is no number; ");
    assert_refuses(MOON_1 "{\"timestamp\": 1, \"input_length\": null, \"output_length\": 5}\n", NULL,
                   "bytes:2:34: \"input_length\" null is no number; ");
    assert_refuses(MOON_1 "{\"timestamp\": 1, \"input_length\": 1.5, \"output_length\": 5}\n", NULL,
                   "bytes:2:34: \"input_length\" 1.5 is not a whole number; ");
}

static void a_negative_json_value(void **state)
{
    (void)state;
    const char *text = MOON_1 "{\"timestamp\": 1, \"input_length\": 1, \"output_length\": -5}\n" MOON_1;

    assert_refuses(text, NULL, "bytes:2:54: \"output_length\" -5 is negative; ");
    assert_refuses(MOON_1 "{\"timestamp\": -1, \"input_length\": 1, \"output_length\": 5}\n", NULL,
                   "bytes:2:15: \"timestamp\" -1 is negative; ");
    assert_int_equal(read_text_leniently(text, NULL).info.skipped[TRACE_SKIP_LENGTH], 1);
}

/* --- csv --- */

static struct reading read_csv(const char *text, const struct trace_columns *columns, bool lenient)
{
    const struct trace_options options = {.columns = columns, .lenient = lenient};

    return read_bytes(text, strlen(text), "csv", &options);
}

static void a_csv_without_a_time_column(void **state)
{
    (void)state;
    const struct trace_columns none = {.prompt = "p"};
    const struct trace_columns wrong = {.time = "when"};
    const struct trace_columns far = {.time = "3"};
    struct reading reading = read_csv("t,p\n1,2\n", &none, false);

    assert_int_equal(reading.status, STATUS_INVALID);
    assert_says(&reading, "bytes: the csv format needs the column of the time; name it");
    reading = read_csv("t,p\n1,2\n", &wrong, false);
    assert_int_equal(reading.status, STATUS_CORRUPT);
    assert_says(&reading, "bytes:1:1: no column 'when' for the time among the 2 here; ");
    reading = read_csv("t,p\n1,2\n", &far, false);
    assert_says(&reading, "bytes:1:1: no column '3' for the time among the 2 here; ");
}

static void a_csv_name_too_long_to_keep_whole(void **state)
{
    (void)state;
    const struct trace_columns columns = {.time = "t", .adapter = "a"};
    const char *text = "t,a\n1,b\n2,1234567890123456789012345678901234567890123456789012345678901234\n";
    struct reading reading = read_csv(text, &columns, false);

    assert_int_equal(reading.status, STATUS_CORRUPT);
    assert_says(&reading, "bytes:3:3: a '12345678901234567890123456789012345678901234567890123456...' is longer than 63 bytes; ");
    reading = read_csv(text, &columns, true);
    assert_int_equal(reading.info.rows, 1);
    assert_int_equal(reading.info.skipped[TRACE_SKIP_NAME], 1);
}

static void a_csv_name_that_is_no_text(void **state)
{
    (void)state;
    const struct trace_columns columns = {.time = "1", .tenant = "2"};
    struct reading reading = read_csv("1,a\xff\n", &columns, false);

    assert_says(&reading, "bytes:1:3: column 2 'a\\xff' is not UTF-8; ");
    reading = read_csv("1,a\tb\n", &columns, false);
    assert_says(&reading, "bytes:1:3: column 2 'a\\x09b' has control characters; ");
}

static void a_negative_count_of_adapters(void **state)
{
    (void)state;
    assert_refuses("gmt_create,predict_type,predict_status,exec_time_seconds,groupId,prompt_length,negative_prompt_length,"
                   "num_images_per_prompt,num_inference_steps,checkpoint_model_version_id,num_lora\n"
                   "2024-11-15 16:57:50,TXT_2_IMG,SUCCEED,32.0,G0000,63.0,26.0,1.0,30.0,M0000,-1\n", NULL,
                   "bytes:2:75: num_lora '-1' is negative; ");
}

static void more_than_256_columns(void **state)
{
    (void)state;
    char text[600];

    memset(text, ',', sizeof(text));
    text[sizeof(text) - 1] = 0;
    assert_refuses(text, "azure", "bytes:1:257: more than 256 columns in the header; ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_before_the_row_above),
        cmocka_unit_test(a_time_slightly_back_is_kept_and_counted_when_tolerated),
        cmocka_unit_test(a_negative_length),
        cmocka_unit_test(an_absurd_length),
        cmocka_unit_test(a_length_of_zero),
        cmocka_unit_test(a_length_that_is_no_number),
        cmocka_unit_test(a_time_that_cannot_be_read),
        cmocka_unit_test(a_missing_column_of_the_header),
        cmocka_unit_test(an_extra_column_of_the_header),
        cmocka_unit_test(too_few_cells_in_a_row),
        cmocka_unit_test(too_many_cells_in_a_row),
        cmocka_unit_test(two_columns_of_one_name),
        cmocka_unit_test(a_byte_order_mark),
        cmocka_unit_test(utf_16),
        cmocka_unit_test(a_blank_line),
        cmocka_unit_test(a_last_line_cut_short),
        cmocka_unit_test(a_missing_final_newline_is_normal),
        cmocka_unit_test(a_nul_byte),
        cmocka_unit_test(a_line_longer_than_a_mebibyte),
        cmocka_unit_test(a_line_of_a_mebibyte_is_read),
        cmocka_unit_test(an_empty_file),
        cmocka_unit_test(a_header_and_no_row),
        cmocka_unit_test(a_first_line_of_no_format),
        cmocka_unit_test(a_wrong_format_is_told_the_right_one),
        cmocka_unit_test(an_unknown_format),
        cmocka_unit_test(a_quote_that_does_not_close),
        cmocka_unit_test(control_bytes_of_a_file_do_not_reach_the_message),
        cmocka_unit_test(a_path_with_control_bytes_does_not_reach_the_message),
        cmocka_unit_test(a_directory),
        cmocka_unit_test(a_json_line_that_is_no_object),
        cmocka_unit_test(a_json_line_without_a_key),
        cmocka_unit_test(a_json_value_of_the_wrong_type),
        cmocka_unit_test(a_negative_json_value),
        cmocka_unit_test(a_csv_without_a_time_column),
        cmocka_unit_test(a_csv_name_too_long_to_keep_whole),
        cmocka_unit_test(a_csv_name_that_is_no_text),
        cmocka_unit_test(a_negative_count_of_adapters),
        cmocka_unit_test(more_than_256_columns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
