#include "conf/address.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void addresses_become_socket_addresses(void **state)
{
    static const struct {
        const char *text, *host;
        int port;
    } v4[] = {{"0.0.0.0:8080", "0.0.0.0", 8080},
              {"255.255.255.255:65535", "255.255.255.255", 65535},
              {"*:1", "0.0.0.0", 1},
              {"localhost:80", "127.0.0.1", 80}};
    static const struct {
        const char *text, *host;
        int port;
    } v6[] = {{"[::]:8080", "::", 8080},
              {"[::1]:80", "::1", 80},
              {"[::ffff:1.2.3.4]:80", "::ffff:1.2.3.4", 80},
              {"[fe80::1%lo]:80", "fe80::1", 80}};
    struct sockaddr_storage address;
    char host[INET6_ADDRSTRLEN];
    socklen_t len;

    (void)state;
    for (size_t i = 0; i < sizeof v4 / sizeof v4[0]; i++) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&address;

        assert_null(address_parse(v4[i].text, &address, &len));
        assert_int_equal(len, sizeof *in);
        assert_int_equal(in->sin_family, AF_INET);
        assert_int_equal(ntohs(in->sin_port), v4[i].port);
        assert_string_equal(inet_ntop(AF_INET, &in->sin_addr, host, sizeof host), v4[i].host);
    }
    for (size_t i = 0; i < sizeof v6 / sizeof v6[0]; i++) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)&address;

        assert_null(address_parse(v6[i].text, &address, &len));
        assert_int_equal(len, sizeof *in);
        assert_int_equal(in->sin6_family, AF_INET6);
        assert_int_equal(ntohs(in->sin6_port), v6[i].port);
        assert_string_equal(inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof host), v6[i].host);
        assert_int_equal(in->sin6_scope_id != 0, strchr(v6[i].text, '%') != NULL);
    }
    assert_null(address_parse("unix:/tmp/a b.sock", &address, &len));
    assert_int_equal(address.ss_family, AF_UNIX);
    assert_string_equal(((struct sockaddr_un *)&address)->sun_path, "/tmp/a b.sock");
    assert_int_equal(len, offsetof(struct sockaddr_un, sun_path) + sizeof "/tmp/a b.sock");
}

static void what_is_no_address(void **state)
{
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"", "port is missing"},
        {"8080", "port is missing"},
        {"127.0.0.1", "port is missing"},
        {":8080", "address is missing"},
        {"127.0.0.1:", "1..65535"},
        {"127.0.0.1:0", "1..65535"},
        {"127.0.0.1:65536", "1..65535"},
        {"127.0.0.1:-1", "1..65535"},
        {"127.0.0.1:+80", "1..65535"},
        {"127.0.0.1: 80", "1..65535"},
        {"127.0.0.1:80 ", "1..65535"},
        {"127.0.0.1:4294967376", "1..65535"},
        {"127.0.0.1:http", "1..65535"},
        {"127.1:80", "numeric"},
        {"256.0.0.1:80", "numeric"},
        {"0x7f000001:80", "numeric"},
        {"127.0.0.1.2.3.4.5.6.7.8.9:80", "numeric"},
        {"example.org:80", "numeric"},
        {"0.0.0.0evil-and-long:80", "numeric"},
        {"::1:80", "brackets"},
        {"[::1]", "[ADDRESS]:PORT"},
        {"[::1", "[ADDRESS]:PORT"},
        {"[::1]80", "[ADDRESS]:PORT"},
        {"[::1]:0", "1..65535"},
        {"[127.0.0.1]:80", "IPv6"},
        {"[::g]:80", "IPv6"},
        {"[]:80", "IPv6"},
        {"[fe80::1%no-such-if]:80", "interface"},
        {"[1111:2222:3333:4444:5555:6666:7777:8888:9999:1111:2222:3333:4444:5555]:80", "IPv6"},
        {"unix:", "absolute"},
        {"unix:a.sock", "absolute"},
        {"unix:/tmp/", "directory"},
        {"http://127.0.0.1:80", "brackets"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct sockaddr_storage address;
        socklen_t len;
        const char *why = address_parse(wrong[i].text, &address, &len);

        if (why == NULL)
            fail_msg("accepted: %s", wrong[i].text);
        else if (strstr(why, wrong[i].why) == NULL)
            fail_msg("%s: %s", wrong[i].text, why);
    }
}

static void paths_of_sockets_end_at_107_octets(void **state)
{
    char text[5 + 109] = "unix:/";
    struct sockaddr_storage address;
    socklen_t len;

    (void)state;
    memset(text + 6, 'x', 106);
    assert_null(address_parse(text, &address, &len));
    assert_int_equal(strlen(((struct sockaddr_un *)&address)->sun_path), 107);
    assert_int_equal(len, sizeof(struct sockaddr_un));
    text[5 + 107] = 'x';
    assert_non_null(strstr(address_parse(text, &address, &len), "107"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_become_socket_addresses),
        cmocka_unit_test(what_is_no_address),
        cmocka_unit_test(paths_of_sockets_end_at_107_octets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
