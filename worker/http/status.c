#include "worker/http/status.h"

#include <stdio.h>

#define STATUS_FIRST 100
#define STATUS_LAST 599

/* IANA's registry, as of RFC 9110, 6585, 4918, 7725, 8297, 8470. */
#define STATUS_TABLE(S)                       \
    S(100, "Continue")                        \
    S(101, "Switching Protocols")             \
    S(102, "Processing")                      \
    S(103, "Early Hints")                     \
    S(200, "OK")                              \
    S(201, "Created")                         \
    S(202, "Accepted")                        \
    S(203, "Non-Authoritative Information")   \
    S(204, "No Content")                      \
    S(205, "Reset Content")                   \
    S(206, "Partial Content")                 \
    S(207, "Multi-Status")                    \
    S(208, "Already Reported")                \
    S(226, "IM Used")                         \
    S(300, "Multiple Choices")                \
    S(301, "Moved Permanently")               \
    S(302, "Found")                           \
    S(303, "See Other")                       \
    S(304, "Not Modified")                    \
    S(307, "Temporary Redirect")              \
    S(308, "Permanent Redirect")              \
    S(400, "Bad Request")                     \
    S(401, "Unauthorized")                    \
    S(402, "Payment Required")                \
    S(403, "Forbidden")                       \
    S(404, "Not Found")                       \
    S(405, "Method Not Allowed")              \
    S(406, "Not Acceptable")                  \
    S(407, "Proxy Authentication Required")   \
    S(408, "Request Timeout")                 \
    S(409, "Conflict")                        \
    S(410, "Gone")                            \
    S(411, "Length Required")                 \
    S(412, "Precondition Failed")             \
    S(413, "Content Too Large")               \
    S(414, "URI Too Long")                    \
    S(415, "Unsupported Media Type")          \
    S(416, "Range Not Satisfiable")           \
    S(417, "Expectation Failed")              \
    S(421, "Misdirected Request")             \
    S(422, "Unprocessable Content")           \
    S(423, "Locked")                          \
    S(424, "Failed Dependency")               \
    S(425, "Too Early")                       \
    S(426, "Upgrade Required")                \
    S(428, "Precondition Required")           \
    S(429, "Too Many Requests")               \
    S(431, "Request Header Fields Too Large") \
    S(451, "Unavailable For Legal Reasons")   \
    S(500, "Internal Server Error")           \
    S(501, "Not Implemented")                 \
    S(502, "Bad Gateway")                     \
    S(503, "Service Unavailable")             \
    S(504, "Gateway Timeout")                 \
    S(505, "HTTP Version Not Supported")      \
    S(506, "Variant Also Negotiates")         \
    S(507, "Insufficient Storage")            \
    S(508, "Loop Detected")                   \
    S(511, "Network Authentication Required")

#define LINE_PREFIX_LEN (sizeof "HTTP/1.1 200 " - 1)
#define LINE(code, reason) \
    [(code)-STATUS_FIRST] = {"HTTP/1.1 " #code " " reason "\r\n", LINE_PREFIX_LEN + sizeof(reason "\r\n") - 1},
#define REASON(code, reason) [(code)-STATUS_FIRST] = SLICE_OF(reason),
#define SLICE_OF(text)           \
    {                            \
        (text), sizeof(text) - 1 \
    }
#define CODES (STATUS_LAST - STATUS_FIRST + 1)

static const struct slice lines[CODES] = {STATUS_TABLE(LINE)};
static const struct slice reasons[CODES] = {STATUS_TABLE(REASON)};
static const struct slice classes[] = {SLICE_OF("Informational"), SLICE_OF("Success"), SLICE_OF("Redirection"),
                                       SLICE_OF("Client Error"), SLICE_OF("Server Error")};

struct slice http_status_line(unsigned status)
{
    /* For a code that is not in the table, an unusual shed_status say: written when it is first asked for. */
    static char others[CODES][sizeof "HTTP/1.1 199 Informational\r\n"];

    if (status < STATUS_FIRST || status > STATUS_LAST)
        status = 500;
    if (lines[status - STATUS_FIRST].slice_p != NULL)
        return lines[status - STATUS_FIRST];
    char *other = others[status - STATUS_FIRST];
    if (other[0] == '\0')
        (void)snprintf(other, sizeof others[0], "HTTP/1.1 %u %s\r\n", status, http_status_reason(status).slice_p);
    return (struct slice){other, LINE_PREFIX_LEN + http_status_reason(status).slice_len + 2};
}

struct slice http_status_reason(unsigned status)
{
    if (status < STATUS_FIRST || status > STATUS_LAST)
        status = 500;
    struct slice reason = reasons[status - STATUS_FIRST];
    return reason.slice_p != NULL ? reason : classes[status / 100 - 1];
}
