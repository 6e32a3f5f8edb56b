/* Templates construct by construct, with texts as Jinja 2 renders them under transformers' settings; what is refused, and where; what
 * is bounded; and which bytes are known to come from the request. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/chat/chat.h"
#include "support.h"

static const char messages_text[] =
    "[{\"role\": \"system\", \"content\": \"  Be terse.\\n\"},"
    " {\"role\": \"user\", \"content\": \"Hi 'you'\"},"
    " {\"role\": \"assistant\", \"content\": \"a</think>b\", \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": 1, \"y\": "
    "[1.5, null, true, \"\\u00e9\\n\"]}}}]},"
    " {\"role\": \"tool\", \"content\": \"r,s,,t\"}]";
static const char variables_text[] =
    "{\"n\": 7, \"f\": 0.1, \"list\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": \"z\"}, \"s\": \"Hello world\", \"uni\": \"\\u65e5\\u672c\", "
    "\"empty\": \"\", \"no\": false, \"multi\": \"one\\ntwo\\n\\nthree\"}";

static enum status render_with(const char *template_text, const char *messages, const char *variables, struct chat_text *text, char *error)
{
    struct chat_request request = {.add_generation_prompt = true, .now_s = 1700000000};
    struct chat_template *template;
    json_t *roots[2] = {json_loads(messages, JSON_ALLOW_NUL, NULL), json_loads(variables, JSON_ALLOW_NUL, NULL)};
    enum status status;

    assert_non_null(roots[0]);
    assert_non_null(roots[1]);
    request.messages = roots[0];
    request.variables = roots[1];
    status = chat_template_open(template_text, strlen(template_text), &template, error);
    if (status == STATUS_OK) {
        status = chat_render(template, NULL, &request, text, error);
        chat_template_close(template);
    }
    json_decref(roots[0]);
    json_decref(roots[1]);
    return status;
}

static void expect(const char *template_text, const char *expected)
{
    struct chat_text text = {0};
    char error[CHAT_ERROR_MAX] = "";
    enum status status = render_with(template_text, messages_text, variables_text, &text, error);

    if (status != STATUS_OK)
        fail_msg("'%s': %s", template_text, error);
    if (text.text.count != strlen(expected) || (text.text.count > 0 && memcmp(text.text.bytes, expected, text.text.count) != 0))
        fail_msg("'%s'\n is '%.*s',\nnot '%s'", template_text, (int)text.text.count, text.text.bytes, expected);
    chat_text_free(&text);
}

static void refused(const char *template_text, const char *why)
{
    struct chat_text text = {0};
    char error[CHAT_ERROR_MAX] = "";
    enum status status;

    token_text_add(&text.text, "before", 6);
    status = render_with(template_text, messages_text, variables_text, &text, error);
    if (status != STATUS_INVALID)
        fail_msg("'%.200s' is not refused", template_text);
    if (strstr(error, why) == NULL)
        fail_msg("'%.200s': '%s' does not say '%s'", template_text, error, why);
    assert_int_equal(text.text.count, 6);
    chat_text_free(&text);
}

static void values_print_as_in_python(void **state)
{
    (void)state;
    expect("{{ n }} {{ f }} {{ list }} {{ d }} {{ none }} {{ true }} {{ 1.0 }} {{ 1e20 }} {{ 1.5e-7 }} {{ 1/3 }}",
           "7 0.1 [3, 1, 2] {'b': 1, 'A': 'z'} None True 1.0 1e+20 1.5e-07 0.3333333333333333");
    expect("{{ (1, 2) }} {{ (1,) }} {{ () }} {{ [\"it's\", 'q\"', 'n\\n'] }} {{ {} }}", "(1, 2) (1,) () [\"it's\", 'q\"', 'n\\n'] {}");
    expect("{{ 'a' 'b' }} {{ '\\x41\\u00e9\\t\\q' }} {{ 1_000 }}", "ab A\xc3\xa9\t\\q 1000");
    expect("{{ nothing }}|{{ messages[99] }}|{{ 'x' if no }}", "||");
}

static void white_space_goes_as_transformers_sets_it(void **state)
{
    (void)state;
    expect("  {% if n > 5 %}\nyes\n  {% else %}\nno\n  {% endif %}\n  end\n", "yes\n  end");
    expect("a {% if true %} b {% endif %} c\n{% if true %}x{% endif %}\n\ny", "a  b  c\nx\ny");
    expect("{%- for m in messages -%}\n   {{- m.role -}}  \n{%- endfor -%}\n", "systemuserassistanttool");
    expect("{# c #}\nx {# c #}\n {#- c -#}  y", "x y");
    expect("x\n  {%+ if true %}\nplus\n  {% endif +%}\n z", "x\n  plus\n\n z");
    expect("{{ n }}\n{{ n -}}\n\nx\r\ny\r\n", "7\n7x\ny");
    expect("{% raw %}{{ not }} {% if %}{% endraw %} x", "{{ not }} {% if %} x");
    expect("{{\n n\n}}\n{%\n if n\n%}\n t\n{%\n endif\n%}", "7\n t\n");
}

static void operators_bind_as_in_jinja(void **state)
{
    (void)state;
    expect("{{ 1 + 2 * 3 - 4 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 3 ** 2 }} {{ 7 / 2 }} {{ (1 + 2) * 3 }} {{ -n }}",
           "3 3 -4 2 64 3.5 9 -7");
    expect("{{ 'a' ~ 1 ~ none }} {{ 'a' + 'b' * 3 }} {{ [1] + [2] }} {{ -1|abs }} {{ 'a' + ' b '|trim + 'c' }}", "a1None abbb [1, 2] 1 abc");
    expect("{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' < 'b' }} {{ 1 == 1.0 }} {{ [1] == [1] }} {{ 'b' in d }} {{ 9 not in list }} {{ 'ell' in s }}",
           "True False True True True True True True");
    expect("{{ 'y' if n == 7 else 'x' }} {{ empty or 'def' }} {{ n and s }} {{ not n }} {{ not n == 8 and true }}", "y def Hello world False True");
}

static void items_and_slices_are_taken(void **state)
{
    (void)state;
    expect("{{ list[-1] }} {{ list[1:] }} {{ list[::-1] }} {{ s[1:4] }} {{ s[::-1] }} {{ s[-3:] }} {{ uni[1] }}{{ uni[::-1] }} {{ list[::2] }}",
           "2 [1, 2] [2, 1, 3] ell dlrow olleH rld \xe6\x9c\xac\xe6\x9c\xac\xe6\x97\xa5 [3, 2]");
    expect("{{ messages[0]['role'] }} {{ messages[0].role }} {{ d.b }} {{ d['A'] }} {{ d.get('q', 5) }} {{ {'a': {'b': 2}}.a.b }}",
           "system system 1 z 5 2");
    expect("{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{{ d|dictsort }}{{ d.keys()|list }}", "b=1;A=z;[('A', 'z'), ('b', 1)]['b', 'A']");
}

static void loops_know_where_they_are(void **state)
{
    (void)state;
    expect("{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}|{% endfor %}",
           "10TrueFalse3|21FalseFalse33|32FalseTrue31|");
    expect("{% for x in list if x > 1 %}{{ x }}{{ loop.length }}{% endfor %}{% for x in [] %}{% else %}none{% endfor %}", "3222none");
    expect("{% for x in range(9) %}{% if x == 3 %}{% continue %}{% endif %}{% if x > 5 %}{% break %}{% endif %}{{ x }}{% endfor %}", "01245");
    expect("{% for a, b in [[1, 2], [3, 4]] %}{{ a }}-{{ b }};{% endfor %}{{ range(5, 0, -2)|list }}", "1-2;3-4;[5, 3, 1]");
}

static void names_live_as_long_as_their_body(void **state)
{
    (void)state;
    expect("{% set x = 1 %}{% for i in range(3) %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}", "1231");
    expect("{% set ns = namespace(x=1) %}{% for i in range(3) %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}", "4");
    expect("{% if true %}{% set x = 2 %}{% endif %}{{ x }}{% set a, b = 1, 2 %}{{ b }}", "22");
    expect("{% set x %}\n  in {{ n }}\n{% endset %}[{{ x }}]", "[  in 7\n]");
    expect("{% macro hi(name, greet='Hello', x=n) %}{{ greet }} {{ name }}{{ x }}!{% endmacro %}{{ hi('Bob') }} {{ hi('A', greet='Yo', x=1) }}",
           "Hello Bob7! Yo A1!");
    expect("{% macro down(k) %}{{ k }}{% if k > 0 %}{{ down(k - 1) }}{% endif %}{% endmacro %}{{ down(5) }}", "543210");
}

static void filters_and_methods_do_as_named(void **state)
{
    (void)state;
    expect("{{ s.upper() }} {{ s|lower }} {{ s.split(' ')[-1] }} {{ 'a,b,,c'.split(',', 1) }} {{ ' a  b '.split() }} {{ s|replace('l', 'L', 1) }}",
           "HELLO WORLD hello world world ['a', 'b,,c'] ['a', 'b'] HeLlo world");
    expect("{{ '\\n\\nx'.lstrip('\\n') }}|{{ 'x  '.rstrip() }}|{{ ' x '|trim }}|{{ 'xxaxx'.strip('x') }}|{{ s.startswith('He') }}{{ s.endswith(('x', 'd')) }}",
           "x|x|x|a|TrueTrue");
    expect("{{ \"it's a dog-house\"|title }} {{ \"it's\".title() }} {{ s.find('wor') }} {{ s.count('l') }} {{ ', '.join(['a', 'b']) }} {{ s|length }}{{ uni|length }}",
           "It's A Dog-House It'S 6 3 a, b 112");
    expect("{{ list|first }}{{ list|last }}{{ list|join('-') }} {{ '12'|int }} {{ 'x'|int }} {{ nothing|default('z') }} {{ empty|default('q', true) }}",
           "323-1-2 12 0 z q");
    expect("{{ messages|selectattr('role', 'equalto', 'user')|list|length }} {{ messages|map(attribute='role')|join(',') }} {{ list|select('odd')|list }} "
           "{{ messages|selectattr('tool_calls', 'defined')|map(attribute='role')|first }} {{ ['a']|map('upper')|list }}",
           "1 system,user,assistant,tool [3, 1] assistant ['A']");
    expect("{{ multi|indent }}|{{ multi|indent(1, true) }}", "one\n    two\n\n    three| one\n two\n\n three");
    expect("{{ messages[2].tool_calls[0].function|tojson }}", "{\"name\": \"f\", \"arguments\": {\"x\": 1, \"y\": [1.5, null, true, \"\xc3\xa9\\n\"]}}");
    expect("{{ {'a': [1, {}], 'b': []}|tojson(indent=2) }}", "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}");
    expect("{{ strftime_now('%d %b %Y') }}", "14 Nov 2023");
}

static void tests_tell_kinds_apart(void **state)
{
    (void)state;
    expect("{{ x is defined }}{{ n is defined }}{{ x is undefined }}{{ none is none }}{{ s is string }}{{ d is mapping }}{{ list is iterable }}"
           "{{ n is not none }}{{ no is false }}{{ n is odd }}{{ n is divisibleby 7 }}{{ 'a' is in ['a'] }}{{ n is number and s is not number }}",
           "FalseTrueTrueTrueTrueTrueTrueTrueTrueTrueTrueTrueTrue");
}

static void mistakes_are_told_with_their_line(void **state)
{
    (void)state;
    refused("a\n{{ messages[99].role }}", "line 2: 'item' is undefined");
    refused("\n\n{{ nothing.attr }}", "line 3: 'nothing' is undefined");
    refused("{{ 'x' + 1 }}", "line 1: this cannot be done with a string and a number");
    refused("{{ raise_exception('roles must alternate') }}", "line 1: the template refuses: roles must alternate");
    refused("{% include 'x' %}", "{% include %} is unknown here");
    refused("{% import 'x' as y %}", "{% import %} is unknown here");
    refused("{% extends 'x' %}", "{% extends %} is unknown here");
    refused("{{ list.append(4) }}", "'append' is undefined");
    refused("{{ ''.__class__.__mro__ }}", "'__class__' is undefined");
    refused("{{ n|nofilter }}", "filter 'nofilter' is unknown here");
    refused("{{ n is notest }}", "test 'notest' is unknown here");
    refused("x\n{% if n %}\n", "line 2: {% if %} has no {% endif %}");
    refused("{% endif %}", "{% endif %} ends nothing");
    refused("{% if n %}{% endfor %}", "{% if %} has no {% endif %}");
    refused("{{ 'x }}", "a string has no end");
    refused("{{ n", "a tag has no end");
    refused("{# n", "a comment has no end");
    refused("{% raw %} {{ ", "{% raw %} has no end");
    refused("{{ n }", "a tag has no end");
    refused("{{ }}", "a value was expected, not 'the end of the tag'");
    refused("{{ n n }}", "}} was expected, not 'n'");
    refused("{{ '\\xzz' }}", "a string has a bad escape");
    refused("{{ 12345678901234567890 }}", "a number is too long");
    refused("{{ 9223372036854775807 if no else 999999999999999999 * 99 }}", "a number is too long");
    refused("{{ 999999999999999999 * 99 }}", "a number is too great");
    refused("{{ 1 // 0 }}", "divided by zero");
    refused("{% set list[0] = 1 %}", "was expected");
    refused("{% set s.x = 1 %}", "only a namespace can be changed");
    refused("{% break %}", "outside of a loop");
    refused("{% for a, b in [[1]] %}{% endfor %}", "fewer values than names");
    refused("{{ n() }}", "a number cannot be called");
    refused("{{ s.upper(1) }}", "upper takes at most 0 arguments");
    refused("{{ d|tojson(sort_keys=true) }}", "tojson knows only indent here");
    refused("{{ n ? 1 }}", "'?' is unknown here");
}

/* `open` many times, then `inside`, then `close` as many times. */
static void refuse_deep(const char *begin, const char *open, const char *inside, const char *close, const char *end)
{
    enum { TIMES = 20000 };
    struct token_text text = {0};

    token_text_add(&text, begin, strlen(begin));
    for (int i = 0; i < TIMES; i++)
        token_text_add(&text, open, strlen(open));
    token_text_add(&text, inside, strlen(inside));
    for (int i = 0; i < TIMES; i++)
        token_text_add(&text, close, strlen(close));
    token_text_add(&text, end, strlen(end) + 1);
    refused(text.bytes, "it nests too deep");
    token_text_free(&text);
}

/* Each of these would run for ever, or take all memory or all of the stack. */
static void hostile_templates_end_with_an_error(void **state)
{
    (void)state;
    refused("{% for a in range(9) %}{% for b in range(99999) %}{{ a * b + a * b }}{% endfor %}{% endfor %}", "the template ");
    refused("{% set a = range(999) %}{% for i in range(99999) %}{{ 'x' if a == a }}{% endfor %}", "the template does too much");
    refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "it nests too deep");
    refused("{% macro m(k) %}{% for i in range(9) %}{{ m(k - 1) if k }}{% endfor %}{% endmacro %}{{ m(30) }}", "the template ");
    refused("{% set ns = namespace(x='ab') %}{% for i in range(99999) %}{% set ns.x = ns.x + ns.x %}{% endfor %}", "too much memory");
    refused("{{ 'abcdefgh' * 999999999 }}", "the template needs too much memory");
    refused("{% set x = 'abcdefgh' * 99999 %}{% for i in range(9999) %}{{ x }}{% endfor %}", "it prints too much");
    refused("{{ range(10000000) }}", "a range of more than");
    refused("{% set a = 'a' * 900000 %}{% for i in range(999) %}{{ (a + 'b') in a * 9 }}{% endfor %}", "the template does too much");
    refused("{% set ns = namespace(x=[]) %}{% for i in range(300) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}", "a value nests too deep");
    refused("{% set ns = namespace(x=[]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson }}", "too much");
    refuse_deep("{{ ", "(", "1", ")", " }}");
    refuse_deep("{{ ", "[", "1", "]", " }}");
    refuse_deep("{{ ", "{'a': ", "1", "}", " }}");
    refuse_deep("{{ ", "s[", "1", "]", " }}");
    refuse_deep("{{ ", "-", "1", "", " }}");
    refuse_deep("{{ ", "not ", "1", "", " }}");
    refuse_deep("", "{% if 1 %}", "", "{% endif %}", "");
    refuse_deep("{{ 1", "+1", "", "", " }}");
    refuse_deep("{{ s", "|trim", "", "", " }}");
    refuse_deep("{{ d", ".a", "", "", " }}");
}

/* --- where bytes come from --- */

/* '#' for a byte of the request, '.' for one of the template. */
static void expect_marks(const char *template_text, const char *expected, const char *marks)
{
    struct chat_text text = {0};
    char error[CHAT_ERROR_MAX] = "";

    if (render_with(template_text, messages_text, variables_text, &text, error) != STATUS_OK)
        fail_msg("'%s': %s", template_text, error);
    assert_int_equal(text.text.count, strlen(expected));
    assert_memory_equal(text.text.bytes, expected, text.text.count);
    for (size_t i = 0; i < text.text.count; i++) {
        if ((text.plain[i] != 0) != (marks[i] == '#'))
            fail_msg("'%s': byte %zu of '%s' is taken for one of the %s", template_text, i, expected, text.plain[i] ? "request" : "template");
    }
    chat_text_free(&text);
}

static void every_byte_knows_where_it_came_from(void **state)
{
    (void)state;
    expect_marks("<{{ s }}>", "<Hello world>", ".###########.");
    expect_marks("{{ '<' + messages[1].content + '>' }}", "<Hi 'you'>", ".########.");
    expect_marks("{{ ('<' + s + '>')[1:-1] }}{{ ('<' + s)[::-1] }}", "Hello worlddlrow olleH<", "######################.");
    expect_marks("{{ messages[0].content|trim }}!", "Be terse.!", "#########.");
    expect_marks("{{ s.replace('world', '<image>')|upper }}", "HELLO <IMAGE>", "######.......");
    expect_marks("{{ ('a,' + s + ',b').split(',')|join(';') }}", "a;Hello world;b", "..###########..");
    expect_marks("{{ d|tojson }}", "{\"b\": 1, \"A\": \"z\"}", "..#.......#....#..");
    expect_marks("{% set x %}[{{ s }}]{% endset %}{{ x }}", "[Hello world]", ".###########.");
    expect_marks("{% macro m(x) %}({{ x }}){% endmacro %}{{ m(uni) }}", "(\xe6\x97\xa5\xe6\x9c\xac)", ".######.");
    expect_marks("{{ s|list|first }}{{ [s, 'x']|join('-') }}", "HHello world-x", "############..");
    expect_marks("{{ n }}{{ messages|length }}", "74", "..");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_print_as_in_python),
        cmocka_unit_test(white_space_goes_as_transformers_sets_it),
        cmocka_unit_test(operators_bind_as_in_jinja),
        cmocka_unit_test(items_and_slices_are_taken),
        cmocka_unit_test(loops_know_where_they_are),
        cmocka_unit_test(names_live_as_long_as_their_body),
        cmocka_unit_test(filters_and_methods_do_as_named),
        cmocka_unit_test(tests_tell_kinds_apart),
        cmocka_unit_test(mistakes_are_told_with_their_line),
        cmocka_unit_test(hostile_templates_end_with_an_error),
        cmocka_unit_test(every_byte_knows_where_it_came_from),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
