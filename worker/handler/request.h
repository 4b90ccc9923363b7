/*
 * A request in progress: from its first octet to its answer's place in the connection's output.  Objects come
 * from the server's slab: this is what one more in flight costs.  Handlers see it through handler.h only.
 */
#ifndef VANILLA_WORKER_HANDLER_REQUEST_H
#define VANILLA_WORKER_HANDLER_REQUEST_H

#include <netinet/in.h>
#include <sys/queue.h>

#include "worker/handler/handler.h"
#include "worker/handler/share.h"
#include "worker/http/chunked.h"
#include "worker/route/params.h"
#include "worker/route/router.h"

struct conn;
struct server;
struct server_route;

enum request_state {                    /* where it is: */
                     REQUEST_READING,   /* conn_reading of its connection: head or body still coming */
                     REQUEST_HELD,      /* conn_reading too: complete, but those before it must be answered first */
                     REQUEST_RUNNING,   /* conn_requests of its connection; inside handler_request */
                     REQUEST_SUSPENDED, /* conn_requests; waits for request_finish */
                     REQUEST_ANSWERED,  /* conn_requests; its answer waits for those before it */
                     REQUEST_DEFERRED,  /* conn_requests; to be run when those before it are answered and sent */
                     REQUEST_ORPHANED   /* on no list: the client has left, request_finish will come and free it */
};

#define REQUEST_MAGIC 0x4e90e575u
#define REQUEST_RETRY_OWN 2u

struct request {
    unsigned magic;
    uint8_t req_state;       /* enum request_state */
    bool req_close;          /* close the connection behind the answer */
    uint8_t req_shed;        /* the answer is a shed: 1 + enum request_shed_cause */
    uint8_t req_retry_after; /* send Retry-After: 1: shed.retry_after; REQUEST_RETRY_OWN: req_retry_s */
    bool req_continue;       /* 100 Continue is still to be sent */
    bool req_in_body;        /* the head is complete */
    bool req_body_done;      /* a chunked body is complete */
    bool req_dressed;        /* has the fields of cors */
    uint16_t req_status;
    uint16_t req_allow;                   /* bits of enum conf_method: send Allow */
    const struct server_route *req_route; /* NULL: none matched */
    struct buf *req_head_buf;             /* shared: holds the head, perhaps the body too */
    struct buf *req_body_buf;             /* own: a body that did not fit behind its head */
    struct slice req_type;                /* Content-Type; slice_p NULL: the route's */
    struct out req_out;                   /* the body; then, with its head in front, the whole answer */
    struct http_parser req_parser;
    /* Up to here all is zeroed when a request begins (request_begin); what follows is set before it is read. */
    struct conn *req_conn; /* NULL: orphaned */
    struct server *req_server;
    struct out req_fields; /* extra field lines; none while out_head is NULL */
    TAILQ_ENTRY(request) req_link;
    char *req_body;          /* where the body begins, in one of the two blocks */
    size_t req_body_len;     /* octets of it so far, decoded */
    size_t req_body_seen;    /* ... at the last look, see deadlines.c */
    uint32_t req_body_looks; /* left until body_ms is over */
    uint16_t req_retry_s;
    bool req_behind;  /* others of its connection were in progress when it began */
    bool req_extra;   /* it is not its connection's first place: counted in server_extra */
    uint8_t req_role; /* enum share_role, of a route with `share` */
    union {
        struct http_chunked req_chunked; /* until its body is complete */
        struct share_seat req_seat;      /* from then on, by req_role */
    };
    struct http_request req_http;
    const struct slice *req_args; /* of the path; valid inside handler_request */
    uint64_t req_started_ns;
    uint64_t req_rows; /* of its query, so far */
    struct pg_query req_query;
    char req_peer[INET6_ADDRSTRLEN];
    struct param_value req_values[]; /* as many as the route with the most parameters has */
};

TAILQ_HEAD(request_list, request);

/* Room kept free before the body in the answer's first block, so that the head is put in front without a copy. */
#define REQUEST_HEAD_ROOM 384u

/* Puts the status line and fields before the body that the handler made: req_out is the whole answer afterwards. */
void request_render(struct request *r);
/* Its answer, which is a shed, is put on the connection: counts it by cause, pool and route. */
void request_count_shed(const struct request *r);
/* Its answer is more than may wait behind others: drops it, for the request to be run again when it is the first. */
void request_defer(struct request *r);
/* Gives back its buffers, request and answer; the object stays, for an orphan's request_finish. */
void request_release(struct request *r);
/* Gives back everything that it holds, and itself. */
void request_free(struct request *r);

#endif
