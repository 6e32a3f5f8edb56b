/* Where a server listens and where it refuses to; TLS, with curl as the client. */
#define _GNU_SOURCE /* mkdtemp */
#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rig.h"

static char folder[64];
static char certificate_file[96], key_file[96];

static void ping(void *context, struct http_request *request)
{
    (void)context;
    http_answer_json(request, 200, json_pack("{s:b}", "ok", 1));
}

static const struct http_route route = {.method = HTTP_GET, .pattern = "/v1/ping", .handle = ping};

/* A key and a certificate of its own for 127.0.0.1. */
static void make_certificate(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    X509_EXTENSION *name = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");
    FILE *file;

    assert_true(key != NULL && certificate != NULL && name != NULL);
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 86400);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC, (const unsigned char *)"berth test", -1, -1, 0);
    X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
    X509_set_pubkey(certificate, key);
    X509_add_ext(certificate, name, -1);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    file = fopen(certificate_file, "w");
    assert_true(file != NULL && PEM_write_X509(file, certificate) == 1 && fclose(file) == 0);
    file = fopen(key_file, "w");
    assert_true(file != NULL && PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1 && fclose(file) == 0);
    assert_int_equal(chmod(key_file, 0600), 0);
    X509_EXTENSION_free(name);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

static int begin(void **context)
{
    (void)context;
    strcpy(folder, "/tmp/berth-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(certificate_file, sizeof(certificate_file), "%s/certificate.pem", folder);
    snprintf(key_file, sizeof(key_file), "%s/key.pem", folder);
    make_certificate();
    return 0;
}

static int end(void **context)
{
    (void)context;
    unlink(certificate_file);
    unlink(key_file);
    rmdir(folder);
    return 0;
}

static void refuses(const char *address, const char *certificate, const char *key, const char *why)
{
    const struct http_config config = {.address = address, .routes = &route, .routes_count = 1, .certificate_file = certificate, .key_file = key};
    struct refusal refusal = {""};
    struct http_server *server;

    assert_int_not_equal(http_open(&config, &server, &refusal), STATUS_OK);
    if (strstr(refusal.text, why) == NULL)
        fail_msg("%s: %s", address, refusal.text);
}

static void nothing_listens_off_loopback_without_tls(void **context)
{
    struct http_server *server;
    struct refusal refusal = {""};
    static const char *const loopback[] = {"127.0.0.1", "127.0.0.2"};

    (void)context;
    refuses("0.0.0.0", NULL, NULL, "give a certificate and its key, or listen on 127.0.0.1");
    refuses("::", NULL, NULL, "without TLS");
    refuses("192.0.2.1", NULL, NULL, "without TLS");
    refuses("::ffff:127.0.0.1", NULL, NULL, "without TLS");
    refuses("localhost", NULL, NULL, "not an IPv4 or IPv6 address");
    refuses("", NULL, NULL, "not an IPv4 or IPv6 address");
    for (size_t i = 0; i < ARRAY_COUNT(loopback); i++) {
        const struct http_config config = {.address = loopback[i], .routes = &route, .routes_count = 1};

        assert_int_equal(http_open(&config, &server, &refusal), STATUS_OK);
        http_close(server);
    }
}

static void a_port_that_is_taken_is_said(void **context)
{
    struct http_config config = {.address = "127.0.0.1", .routes = &route, .routes_count = 1};
    struct http_server *server;
    struct http_server *second;
    struct refusal refusal = {""};

    (void)context;
    assert_int_equal(http_open(&config, &server, &refusal), STATUS_OK);
    config.port = http_port(server);
    assert_int_equal(http_open(&config, &second, &refusal), STATUS_IO);
    assert_non_null(strstr(refusal.text, "in use"));
    http_close(server);
}

static void refuses_listener(int listener, const char *why)
{
    const struct http_config config = {.address = "given", .listener = listener, .routes = &route, .routes_count = 1};
    struct refusal refusal = {""};
    struct http_server *server;

    assert_int_not_equal(http_open(&config, &server, &refusal), STATUS_OK);
    if (strstr(refusal.text, why) == NULL)
        fail_msg("%s", refusal.text);
}

static void a_listener_that_is_handed_over_is_as_strict(void **context)
{
    const struct sockaddr_in anywhere = {.sin_family = AF_INET};
    const int listener = socket(AF_INET, SOCK_STREAM, 0);

    (void)context;
    refuses_listener(dup(listener), "not a TCP socket that listens");
    refuses_listener(open("/dev/null", O_RDONLY), "not a TCP socket that listens");
    assert_int_equal(bind(listener, (const struct sockaddr *)&anywhere, sizeof(anywhere)), 0);
    assert_int_equal(listen(listener, 1), 0);
    refuses_listener(listener, "without TLS");
}

/* Each server has a duplicate, as each has a descriptor of its own when they are processes. */
static void who_connects_between_two_servers_is_served_by_the_second(void **context)
{
    struct http_config config = {.address = "127.0.0.1", .routes = &route, .routes_count = 1};
    struct rig rig = {0};
    struct client_answer answer = {0};
    struct refusal refusal = {""};
    int listener = -1;
    int client;

    (void)context;
    assert_int_equal(http_listen(&config, &listener, &refusal), STATUS_OK);
    config.listener = dup(listener);
    assert_int_equal(http_open(&config, &rig.server, &refusal), STATUS_OK);
    assert_int_equal(http_port(rig.server), http_listener_port(listener));
    client_ask(&rig, "GET /v1/ping HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", &answer);
    assert_int_equal(answer.status, 200);
    http_stop(rig.server, 0);
    client = client_connect(&rig);
    client_say(client, "GET /v1/ping HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    http_close(rig.server);
    config.listener = dup(listener);
    assert_int_equal(http_open(&config, &rig.server, &refusal), STATUS_OK);
    client_read(client, &answer);
    assert_int_equal(answer.status, 200);
    close(client);
    client_answer_free(&answer);
    http_close(rig.server);
    close(listener);
}

static void keys_that_others_can_read_and_files_that_are_none_are_refused(void **context)
{
    (void)context;
    assert_int_equal(chmod(key_file, 0640), 0);
    refuses("127.0.0.1", certificate_file, key_file, "chmod 600");
    assert_int_equal(chmod(key_file, 0600), 0);
    refuses("127.0.0.1", certificate_file, "/nowhere/key.pem", "/nowhere/key.pem");
    refuses("127.0.0.1", "/nowhere/certificate.pem", key_file, "/nowhere/certificate.pem");
    refuses("127.0.0.1", certificate_file, "/dev/null", "");
    refuses("127.0.0.1", key_file, key_file, "is ");
}

/* Runs curl; what it prints, and in *ret_code how it ended. */
static const char *curl(const char *arguments, int *ret_code)
{
    static char text[4096];
    char command[512];
    FILE *pipe;
    size_t count;

    snprintf(command, sizeof(command), "curl --silent --max-time 10 --noproxy '*' %s 2>&1", arguments);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    count = fread(text, 1, sizeof(text) - 1, pipe);
    text[count] = '\0';
    *ret_code = pclose(pipe);
    return text;
}

static void tls_is_1_2_or_later_and_never_plain(void **context)
{
    const struct http_config config = {.address = "127.0.0.1", .routes = &route, .routes_count = 1, .certificate_file = certificate_file,
                                       .key_file = key_file};
    struct http_server *server;
    struct refusal refusal = {""};
    char arguments[256];
    int code;

    (void)context;
    if (system("curl --version >/dev/null 2>&1") != 0) {
        printf("skipped: there is no curl\n");
        skip();
    }
    if (http_open(&config, &server, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    snprintf(arguments, sizeof(arguments), "--cacert %s https://127.0.0.1:%u/v1/ping", certificate_file, http_port(server));
    assert_string_equal(curl(arguments, &code), "{\"ok\":true}");
    snprintf(arguments, sizeof(arguments), "--cacert %s --tls-max 1.2 https://127.0.0.1:%u/v1/ping", certificate_file, http_port(server));
    assert_string_equal(curl(arguments, &code), "{\"ok\":true}");
    snprintf(arguments, sizeof(arguments), "--cacert %s --tls-max 1.1 https://127.0.0.1:%u/v1/ping", certificate_file, http_port(server));
    curl(arguments, &code);
    assert_int_not_equal(code, 0);
    snprintf(arguments, sizeof(arguments), "http://127.0.0.1:%u/v1/ping", http_port(server));
    curl(arguments, &code);
    assert_int_not_equal(code, 0);
    http_close(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_listens_off_loopback_without_tls),
        cmocka_unit_test(a_port_that_is_taken_is_said),
        cmocka_unit_test(a_listener_that_is_handed_over_is_as_strict),
        cmocka_unit_test(who_connects_between_two_servers_is_served_by_the_second),
        cmocka_unit_test(keys_that_others_can_read_and_files_that_are_none_are_refused),
        cmocka_unit_test(tls_is_1_2_or_later_and_never_plain),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
