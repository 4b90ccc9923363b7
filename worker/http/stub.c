/* Stubs: what a connection holds while a head dribbles in.  10,000 clients that send an octet each second would
 * otherwise hold 10,000 buffers; parsing few octets anew costs less than keeping the parser's state. */
#include <string.h>

#include "worker/http/server.h"

#define STUB_OCTETS 252u

struct stub {
    uint32_t stub_len;
    char stub_octets[STUB_OCTETS];
};

size_t stub_size(void)
{
    return sizeof(struct stub);
}

void stub_put(struct conn *c)
{
    struct server *s = c->conn_server;
    const struct buf *b = c->conn_buf;

    AN(c->conn_stub == NULL);
    if (b->buf_end - b->buf_start > STUB_OCTETS || b->buf_end == b->buf_start)
        return;
    c->conn_stub = slab_get(s->server_stubs);
    if (c->conn_stub == NULL)
        return; /* there is one for each connection */
    c->conn_stub->stub_len = b->buf_end - b->buf_start;
    memcpy(c->conn_stub->stub_octets, b->buf_data + b->buf_start, c->conn_stub->stub_len);
    if (c->conn_reading != NULL) {
        request_free(c->conn_reading);
        c->conn_reading = NULL;
    }
    buf_unref(s->server_buffers, &c->conn_buf);
}

void stub_take(struct conn *c)
{
    struct buf *b = c->conn_buf;

    AN(b != NULL && b->buf_end == 0 && c->conn_reading == NULL);
    memcpy(b->buf_data, c->conn_stub->stub_octets, c->conn_stub->stub_len);
    b->buf_end = c->conn_stub->stub_len;
    stub_drop(c);
}

void stub_drop(struct conn *c)
{
    slab_put(c->conn_server->server_stubs, c->conn_stub);
    c->conn_stub = NULL;
}
